//go:build !unix

package inboxpage

import "io/fs"

func checkPrivateDir(fs.FileInfo) error { return nil } // the directory of the user's configuration is private
