package inbox

import (
	"fmt"
	"html/template"
	"net/url"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdown renders the Markdown of an author. HTML in it is shown as text, images are links, and each link shows where
// it leads. Markdown that costs too much is shown as plain text. Entities can stand for any character, so those that
// show nothing are named in the finished text.
func markdown(source string) template.HTML {
	if isCostly(source) {
		return linked(source)
	}
	var b strings.Builder
	if err := renderMarkdown.Convert([]byte(plain(source)), &b); err != nil {
		return linked(source)
	}
	return template.HTML(plain(b.String())) //nolint:gosec // the renderers below escape what they write
}

// The bounds of rendering: the nesting of lists and quotes, and the steps of the rest. The library needs quadratic time
// for some texts, and the texts are written by callers.
const (
	mostNested = 32
	mostSteps  = 2 << 20
)

// container matches what begins a line in a list or a quote, and bullet what begins a block in any case.
var (
	container = regexp.MustCompile(`^[ \t]*(>|[-+*][ \t]|[0-9]{1,9}[.)][ \t])`)
	bullet    = regexp.MustCompile(`^ {0,3}[-+*] +[^ \t\n]`)
)

// isCostly reports whether Markdown is nested deeper, or takes more steps, than is rendered for a page. In a block of
// lines the renderer may compare each mark of a link, an emphasis or an element with all others. In a table each line
// has as many cells as the longest.
func isCostly(source string) bool {
	var steps, marks, cells, lines int64
	endBlock := func() {
		steps += marks*marks + 64*cells*lines
		marks, cells, lines = 0, 0, 0
	}
	for line := range strings.Lines(source + "\n\n") {
		if strings.Trim(line, " \t>\n") == "" || bullet.MatchString(line) {
			endBlock()
		}
		nested := 0
		for m := container.FindStringIndex(line); m != nil; m = container.FindStringIndex(line) {
			if nested += 1 + strings.Count(line[:m[1]], "  ") + 2*strings.Count(line[:m[1]], "\t"); nested > mostNested {
				return true
			}
			line = line[m[1]:]
		}
		for _, c := range []byte(line) {
			if strings.IndexByte("[]*_~`<", c) >= 0 {
				marks++
			}
		}
		cells = max(cells, int64(strings.Count(line, "|")))
		lines++
	}
	return steps > mostSteps
}

var renderMarkdown = goldmark.New(
	goldmark.WithExtensions(extension.Strikethrough,
		extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))), // styles are not allowed
	goldmark.WithRenderer(renderer.NewRenderer(renderer.WithNodeRenderers(
		util.Prioritized(html.NewRenderer(html.WithHardWraps()), 1000),
		util.Prioritized(plainNodes{}, 100),
	))),
)

// plainNodes renders what could lead somebody elsewhere, or load anything.
type plainNodes struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (plainNodes) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindHeading, renderHeading)
	r.Register(ast.KindLink, atEnd(func(w util.BufWriter, _ []byte, n ast.Node) {
		writeTarget(w, string(n.(*ast.Link).Destination))
	}))
	r.Register(ast.KindImage, atEnd(func(w util.BufWriter, _ []byte, n ast.Node) {
		writeTarget(w, string(n.(*ast.Image).Destination))
	}))
	r.Register(ast.KindAutoLink, atEnd(func(w util.BufWriter, source []byte, n ast.Node) {
		_, _ = w.WriteString(string(linked(string(n.(*ast.AutoLink).URL(source)))))
	}))
	r.Register(ast.KindRawHTML, atEnd(func(w util.BufWriter, source []byte, n ast.Node) {
		writeLines(w, source, n.(*ast.RawHTML).Segments)
	}))
	r.Register(ast.KindHTMLBlock, atEnd(func(w util.BufWriter, source []byte, n ast.Node) {
		_, _ = w.WriteString("<pre>")
		writeLines(w, source, n.Lines())
		if last := n.(*ast.HTMLBlock).ClosureLine; last.Stop > last.Start {
			_, _ = w.WriteString(template.HTMLEscapeString(string(last.Value(source))))
		}
		_, _ = w.WriteString("</pre>\n")
	}))
}

// atEnd renders a node behind what is in it.
func atEnd(write func(w util.BufWriter, source []byte, n ast.Node)) renderer.NodeRendererFunc {
	return func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			write(w, source, n)
		}
		return ast.WalkContinue, nil
	}
}

// renderHeading renders a heading below the headings of the page.
func renderHeading(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	slash := ""
	if !entering {
		slash = "/"
	}
	_, _ = fmt.Fprintf(w, "<%sh%d>", slash, min(n.(*ast.Heading).Level+2, 6))
	return ast.WalkContinue, nil
}

func writeLines(w util.BufWriter, source []byte, lines *text.Segments) {
	for i := range lines.Len() {
		line := lines.At(i)
		_, _ = w.WriteString(template.HTMLEscapeString(string(line.Value(source))))
	}
}

// writeTarget writes behind a text where it leads: as a link, if it is an address.
func writeTarget(w util.BufWriter, to string) {
	if u, err := url.Parse(to); err != nil || u.Scheme != "http" && u.Scheme != "https" {
		_, _ = w.WriteString(" (" + string(isolated(to)) + ")")
		return
	}
	_, _ = w.WriteString(" (" + string(linked(to)) + ")")
}
