package deployment

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// stages returns the two stages of the Dockerfile.
func stages(t *testing.T) (build, image instructions.Stage) {
	t.Helper()
	parsed := expect.Must(parser.Parse(strings.NewReader(read(t, "Dockerfile"))))(t)
	if len(parsed.Warnings) > 0 {
		t.Fatalf("%+v", parsed.Warnings)
	}
	all, _, err := instructions.Parse(parsed.AST, nil)
	expect.Check(t, err)
	if len(all) != 2 {
		t.Fatalf("%d stages", len(all))
	}
	return all[0], all[1]
}

// instruction returns the only instruction of a kind.
func instruction[T instructions.Command](t *testing.T, s instructions.Stage) T {
	t.Helper()
	var found []T
	for _, c := range s.Commands {
		if c, ok := c.(T); ok {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d instructions of one kind: %v", len(found), found)
	}
	return found[0]
}

// buildCommand returns the environment and the arguments of the build in the Dockerfile.
func buildCommand(t *testing.T) (environment, arguments []string) {
	t.Helper()
	build, _ := stages(t)
	words := strings.Fields(strings.Join(instruction[*instructions.RunCommand](t, build).CmdLine, " "))
	at := slices.Index(words, "go")
	if at < 0 {
		t.Fatalf("%q builds nothing", words)
	}
	return words[:at], words[at:]
}

// imageUser returns the user and the group of the image.
func imageUser(t *testing.T) (user, group int64) {
	t.Helper()
	_, image := stages(t)
	u, g, _ := strings.Cut(instruction[*instructions.UserCommand](t, image).User, ":")
	user, err1 := strconv.ParseInt(u, 10, 64)
	group, err2 := strconv.ParseInt(g, 10, 64)
	if err1 != nil || err2 != nil || user == 0 || group == 0 {
		t.Fatalf("USER %s:%s: want numbers, because the image has no names, and Kubernetes has to see that it is not root", u,
			g)
	}
	return user, group
}

func TestDockerfile(t *testing.T) {
	build, image := stages(t)
	expect.Equal(t, "the base of the image", image.BaseName, "scratch")
	environment, arguments := buildCommand(t)
	if !slices.Contains(environment, "CGO_ENABLED=0") || !slices.Contains(arguments, "-trimpath") {
		t.Errorf("%s %s: the program is not static, or has paths of the machine that built it", environment, arguments)
	}

	work := expect.Must(os.ReadFile(filepath.Join(folder, "../../go.work")))(t)
	_, version, _ := strings.Cut(build.BaseName, ":")
	if !strings.Contains(string(work), "\ngo "+version+".") {
		t.Errorf("the image %s builds what needs the Go of go.work", build.BaseName)
	}

	// What is copied was built, or is in the image of Go; what is started was copied.
	var copied []string
	for _, c := range image.Commands {
		if c, ok := c.(*instructions.CopyCommand); ok {
			expect.Equal(t, "the stage that is copied from", c.From, build.Name)
			copied = append(copied, c.SourcePaths[0]+" "+c.DestPath)
		}
	}
	const certificates = "/etc/ssl/certs/ca-certificates.crt" // where Go looks for them, and Debian has them
	program := arguments[slices.Index(arguments, "-o")+1]
	expect.Same(t, "copied", copied, []string{certificates + " " + certificates, program + " " + program})
	if entry := instruction[*instructions.EntrypointCommand](t, image); entry.PrependShell ||
		!slices.Equal(entry.CmdLine, []string{program}) {
		t.Errorf("%s starts %q, and there is no shell", entry, entry.CmdLine)
	}
	_, c := readManifests(t).server(t)
	if ports := instruction[*instructions.ExposeCommand](t, image).Ports; len(ports) != 1 ||
		ports[0] != strconv.Itoa(int(c.Ports[0].ContainerPort)) {
		t.Errorf("EXPOSE %q", ports)
	}
}

// What the README has people put into the folder stays out of the image and out of git.
func TestSecretsStayOutOfTheImage(t *testing.T) {
	for _, pattern := range []string{"**/*.keys", "**/.env", ".git"} {
		if !slices.Contains(strings.Split(read(t, "Dockerfile.dockerignore"), "\n"), pattern) {
			t.Errorf("the image's context has %s", pattern)
		}
	}
	for _, pattern := range []string{"/.env", "/keys/"} {
		if !slices.Contains(strings.Split(read(t, ".gitignore"), "\n"), pattern) {
			t.Errorf("git takes %s", pattern)
		}
	}
}
