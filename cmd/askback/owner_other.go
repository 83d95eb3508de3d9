//go:build !unix

package main

import (
	"io/fs"
	"os"
)

func keepOwner(*os.File, fs.FileInfo) error { return nil }

func checkPrivateDir(fs.FileInfo) error { return nil } // the directory of the user's configuration is private
