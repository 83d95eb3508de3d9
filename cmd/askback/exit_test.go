package main

import (
	"strings"
	"testing"
)

func TestSecretsOfAnAddressAreNotPrinted(t *testing.T) {
	t.Parallel()
	if _, _, stderr := command(t, "tools", "http://bob:S3cret@127.0.0.1:1/mcp"); strings.Contains(stderr, "S3cret") {
		t.Errorf("printed: %s", stderr)
	}
}
