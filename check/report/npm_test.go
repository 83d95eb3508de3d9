package report

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// packages are what npm installs once, as the package-lock.json pins it.
var packages = struct {
	sync.Once
	failed error
}{}

// installed returns the directory of the packages of npm. The gate has npm; elsewhere the tests say that it is missing.
func installed(t *testing.T) string {
	t.Helper()
	const dir = "testdata/npm"
	if _, err := exec.LookPath("npm"); err != nil && os.Getenv("ASKBACK_TEST_CHROMIUM") != "required" {
		t.Skip("there is no npm: install the package npm")
	}
	packages.Do(func() {
		lock, err := os.ReadFile(dir + "/package-lock.json")
		if err != nil {
			packages.failed = err
			return
		}
		mark, sum := dir+"/node_modules/.installed", fmt.Sprintf("%x", sha256.Sum256(lock))
		if before, err := os.ReadFile(mark); err == nil && string(before) == sum {
			return
		}
		install := exec.Command("npm", "ci", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund",
			"--loglevel=error")
		if out, err := install.CombinedOutput(); err != nil {
			packages.failed = fmt.Errorf("npm ci: %w\n%s", err, out)
			return
		}
		packages.failed = os.WriteFile(mark, []byte(sum), 0o600)
	})
	if packages.failed != nil {
		t.Fatal(packages.failed)
	}
	return dir + "/node_modules"
}
