package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/lockedfile"
	"github.com/spf13/cobra"
)

// remembered are the headers of --remember, by the origin of the server that gets them.
type remembered map[string]http.Header

func forgetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "forget [HOST]",
		Short: "Forget the headers of --remember for a host",
		Long: `Forget the headers that --remember has kept for HOST. HOST is a URL, or a host
with or without its port. Without HOST, list the hosts and the names of their
headers.

The headers are in askback/headers.json in the user's configuration directory,
which only its owner can read.

Exit codes: 0 they are forgotten or listed; 1 HOST has no headers, or it failed;
2 wrong usage.`,
		Example: `  askback forget https://tools.example.com`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				all, err := loadHeaders()
				if err != nil {
					return err
				}
				return output(cmd.OutOrStdout(), all.list())
			}
			var gone []string
			err := changeHeaders(func(all remembered) error {
				if gone = all.at(args[0]); gone == nil {
					return fmt.Errorf("no headers are remembered for %.200q; 'askback forget' lists the hosts", args[0])
				}
				for _, origin := range gone {
					delete(all, origin)
				}
				return nil
			})
			if err != nil {
				return err
			}
			return output(cmd.OutOrStdout(), "forgot the headers for "+strings.Join(gone, ", ")+"\n")
		},
	}
}

// list shows the origins and the names of their headers, and never a value.
func (r remembered) list() string {
	var b strings.Builder
	for _, origin := range slices.Sorted(maps.Keys(r)) {
		fmt.Fprintf(&b, "%s  %s\n", origin, strings.Join(slices.Sorted(maps.Keys(r[origin])), ", "))
	}
	return b.String()
}

// at returns the origins that a user's word means: the origin of a URL, or all origins of a host.
func (r remembered) at(host string) []string {
	var found []string
	for _, origin := range slices.Sorted(maps.Keys(r)) {
		of, _ := url.Parse(origin) // parseRemembered has parsed it
		asked, err := url.Parse(host)
		if strings.EqualFold(host, of.Host) || strings.EqualFold(host, of.Hostname()) ||
			err == nil && asked.Host != "" && originOf(asked) == origin {
			found = append(found, origin)
		}
	}
	return found
}

// originOf is the scheme and host of a URL, and its port unless the scheme implies it.
func originOf(u *url.URL) string {
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	host = strings.TrimSuffix(host, map[string]string{"http": ":80", "https": ":443"}[scheme])
	return scheme + "://" + strings.TrimSuffix(host, ":")
}

// recall adds the remembered headers of a server. The headers of the command line win.
func recall(t target, header http.Header) (recalled bool, err error) {
	all, err := loadHeaders()
	if err != nil {
		return false, err
	}
	for name, values := range all[originOf(t.address)] {
		byURL := name == "Authorization" && t.address.User != nil
		if _, given := header[name]; !given && !byURL {
			header[name] = values
			recalled = true
		}
	}
	return recalled, nil
}

// remember keeps headers for the server at a target.
func remember(t target, header http.Header) error {
	return changeHeaders(func(all remembered) error {
		origin := originOf(t.address)
		if all[origin] == nil {
			all[origin] = make(http.Header)
		}
		maps.Copy(all[origin], header)
		return nil
	})
}

func headersFile() (string, error) {
	dir, err := os.UserConfigDir()
	return filepath.Join(dir, "askback", "headers.json"), err
}

// maxHeaders is the size limit of the file of headers, in bytes.
const maxHeaders = 1 << 20

// loadHeaders reads the remembered headers. It refuses a file that others can read, or have written.
func loadHeaders() (remembered, error) {
	file, err := headersFile()
	if err != nil {
		return nil, nil // without a home nothing can be remembered
	}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return remembered{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the remembered headers: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = checkPrivate(info)
	}
	if err != nil {
		return nil, fmt.Errorf("the remembered headers in %s are not used: %w", file, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxHeaders+1))
	if err != nil {
		return nil, fmt.Errorf("the remembered headers: %w", err)
	}
	all, err := parseRemembered(text)
	if err != nil {
		return nil, fmt.Errorf("the remembered headers in %s are damaged, remove the file: %w", file, err)
	}
	return all, nil
}

// parseRemembered reads the file of headers. Its errors contain no values.
func parseRemembered(text []byte) (remembered, error) {
	if len(text) > maxHeaders {
		return nil, fmt.Errorf("it has more than %d bytes", maxHeaders)
	}
	if err := checkObject(text); err != nil {
		return nil, err
	}
	var all remembered
	if json.Unmarshal(text, &all) != nil {
		return nil, errors.New("want headers by the origins of servers")
	}
	for origin, header := range all {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || originOf(u) != origin {
			return nil, errors.New("a name is not the origin of a server, such as https://example.com")
		}
		for name, values := range header {
			for _, value := range values {
				if checkHeader(name, value) != nil || http.CanonicalHeaderKey(name) != name {
					return nil, fmt.Errorf("a header for %s is not valid", origin)
				}
			}
		}
	}
	return all, nil
}

// changeHeaders changes the remembered headers in one go. Two processes that do so at once wait for each other.
func changeHeaders(change func(all remembered) error) error {
	file, err := headersFile()
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o700)
	}
	if err != nil {
		return fmt.Errorf("remembering headers: %w", err)
	}
	unlock, err := lockedfile.MutexAt(file + ".lock").Lock()
	if err != nil {
		return fmt.Errorf("remembering headers: %w", err)
	}
	defer unlock()
	all, err := loadHeaders()
	if err != nil {
		return err
	}
	if err := change(all); err != nil {
		return err
	}
	text, err := encodeJSON(all, "  ")
	if err == nil && len(text) > maxHeaders {
		err = fmt.Errorf("there are too many: 'askback forget' lists and removes them")
	}
	if err == nil {
		err = replaceFile(file, string(text))
	}
	if err != nil {
		return fmt.Errorf("remembering headers: %w", err)
	}
	return nil
}

// replaceFile writes a file of mode 0600 that is old or new after a crash.
func replaceFile(file, text string) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".askback-headers-*") // mode 0600
	if err != nil {
		return err
	}
	if err := writeAndSync(f, text); err != nil {
		os.Remove(f.Name())
		return err
	}
	if err := os.Rename(f.Name(), file); err != nil {
		os.Remove(f.Name())
		return err
	}
	return syncDir(filepath.Dir(file))
}
