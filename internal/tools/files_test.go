package tools

import (
	"os"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// repository is the directory before the name of a file. It keeps its dots: without them go test takes a result from
// its cache after a file outside of this module has changed.
var repository = func() string {
	here, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return here + "/../../"
}()

// The repository has no file of more than 1 MiB, so that nobody commits a program that a build left in a folder.
func TestFilesAreSmall(t *testing.T) {
	const most = 1 << 20
	for _, name := range tracked(t, "*") {
		file := expect.Must(os.Stat(repository + name))(t)
		if file.Size() > most {
			t.Errorf("%s has %d bytes; a file has at most %d", name, file.Size(), most)
		}
	}
}
