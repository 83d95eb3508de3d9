package inbox

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"net/http"
	"path"
)

//go:embed assets templates
var files embed.FS

// asset is a file that the pages load. Its address changes with its content, so browsers may keep it forever.
type asset struct {
	content []byte
	hash    string
	kind    string
}

var assets = func() map[string]asset {
	kinds := map[string]string{
		".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
	}
	all := make(map[string]asset)
	entries, err := fs.ReadDir(files, "assets")
	if err != nil {
		panic(err) // a fault of the build, as below
	}
	for _, e := range entries {
		content, err := fs.ReadFile(files, "assets/"+e.Name())
		if err != nil {
			panic(err)
		}
		hash := sha256.Sum256(content)
		all[e.Name()] = asset{content, base64.RawURLEncoding.EncodeToString(hash[:12]), kinds[path.Ext(e.Name())]}
	}
	return all
}()

// assetPath is the address at which a page finds a file.
func assetPath(base, name string) string { return base + "assets/" + assets[name].hash + "/" + name }

func serveAsset(w http.ResponseWriter, r *http.Request) {
	a, found := assets[r.PathValue("name")]
	if !found {
		http.NotFound(w, r)
		return
	}
	etag := `"` + a.hash + `"`
	h := w.Header()
	h.Set("ETag", etag)
	h.Set("Cache-Control", "no-cache")
	if r.PathValue("hash") == a.hash {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", a.kind)
	_, _ = w.Write(a.content) // the browser may be gone
}
