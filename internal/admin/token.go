package admin

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/node"
)

// tokenFor returns the token, and a file that is removed at the end.
func tokenFor(o *Options) (token, left string, err error) {
	if o.Token != "" {
		return o.Token, "", checkToken(o.Token, "the token")
	}
	path, err := api.TokenPath(o.Listener.Addr().String())
	if o.Data != "" {
		token, kept := keptToken(filepath.Join(o.Data, api.TokenFile))
		if kept != nil || err != nil {
			return token, "", kept
		}
		return token, leaveToken(path, token), nil
	}
	token = rand.Text() // 130 bits
	if err == nil {
		left = leaveToken(path, token)
	}
	if left == "" {
		// A user without a directory of its own, in a container say, is served all the same.
		o.Complain(errNoPlace)
	}
	return token, left, nil
}

// leaveToken leaves a copy for clients of the same user, who then need to know no more than
// the address: that user can read the data too. It replaces one of a server that was
// killed. If there is no place for it the directory of the data has to be named.
func leaveToken(path, token string) (left string) {
	if os.MkdirAll(filepath.Dir(path), 0o700) != nil || removeLeft(path) != nil {
		return ""
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return ""
	}
	_, err = f.WriteString(token + "\n")
	if errors.Join(err, f.Close()) != nil {
		_ = os.Remove(path)
		return ""
	}
	return path
}

var errNoPlace = errors.New("nothing can be changed over HTTP, because this user has no place for the token: give one with --http-token-file")

// keptToken reads a token, or makes one that only the user of the server can read. A file
// without anything in it was left by a crash: nobody knows it as a token.
func keptToken(path string) (string, error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > 0 {
		return readToken(path)
	}
	if link, e := os.Readlink(path); e == nil {
		return "", fmt.Errorf("token of the HTTP API: %s leads to %s, which has none: remove the link, or put one there", path, link)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("token of the HTTP API: %w", err)
	}
	token := rand.Text() // 130 bits
	if err := writeToken(path, token); err != nil {
		return "", fmt.Errorf("token of the HTTP API: %w", err)
	}
	return token, nil
}

// writeToken gives the file its name when the token is on disk.
func writeToken(path, token string) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(token + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return node.SyncDir(filepath.Dir(path))
}

func readToken(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("token of the HTTP API: %w", err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("token of the HTTP API: others may read %s: remove it, and a new one is made", path)
	}
	token, err := api.ReadToken(path)
	if err != nil {
		return "", fmt.Errorf("token of the HTTP API: %w", err)
	}
	return token, checkToken(token, path)
}

// checkToken refuses what can be guessed, or cannot be sent.
func checkToken(token, where string) error {
	plain := !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
	if len(token) < api.MinToken || !plain {
		return fmt.Errorf("token of the HTTP API: %s must have at least %d printable ASCII characters without spaces", where, api.MinToken)
	}
	return nil
}

// removeLeft removes a file, if there is one.
func removeLeft(path string) error {
	if path == "" {
		return nil
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
