package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/ops/api"
)

// guard decides which requests are served.
type guard struct {
	// openReads reports whether reads need no token: the listener is on loopback.
	openReads bool
	hosts     []string
	// token and readTokenFile are digests. Without a token for reading nothing matches readTokenFile,
	// because the digest of no text is all zeros.
	token, readToken [sha256.Size]byte
	crossOrigin      *http.CrossOriginProtection
}

// accessLevel is what the token of a request allows.
type accessLevel uint8

const (
	noAccess accessLevel = iota
	readAccess
	fullAccess
)

func newGuard(addr net.Addr, hosts []string, token, readToken string) (guard, error) {
	g := guard{hosts: []string{"localhost"}, token: sha256.Sum256([]byte(token)), crossOrigin: http.NewCrossOriginProtection()}
	if readToken != "" {
		if err := checkToken(readToken, "the read token"); err != nil {
			return g, err
		}
		if readToken == token {
			return g, errors.New("token of the HTTP API: the read token is the one that may change everything: use two that differ")
		}
		g.readToken = sha256.Sum256([]byte(readToken))
	}
	for _, h := range hosts {
		g.hosts = append(g.hosts, strings.ToLower(strings.TrimSuffix(h, ".")))
	}
	if at, err := netip.ParseAddrPort(addr.String()); err == nil {
		g.openReads = at.Addr().Unmap().IsLoopback()
	}
	return g, nil
}

// setSecurityHeaders are of every answer: nothing of it is a page, or is kept.
func setSecurityHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// isKnownHost reports whether a request names the server as it is known. A page can make its own
// name mean this machine, and would then be of the same origin; it cannot choose what the
// browser writes into Host.
func (g *guard) isKnownHost(r *http.Request) bool {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if slices.Contains(g.hosts, host) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	if ip = ip.Unmap(); ip.IsLoopback() {
		return true
	}
	// An address is no name that could mean something else tomorrow.
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	return err == nil && at.Addr().Unmap().WithZone("") == ip.WithZone("")
}

// authenticateRequest returns what the token of a request allows. Digests are compared, so that neither
// the bytes nor the length of what was sent shows in the time that it takes.
func (g *guard) authenticateRequest(r *http.Request) accessLevel {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	full := subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
	read := subtle.ConstantTimeCompare(sum[:], g.readToken[:]) == 1
	switch {
	case !ok || !strings.EqualFold(scheme, "Bearer"):
		return noAccess
	case full:
		return fullAccess
	case read:
		return readAccess
	}
	return noAccess
}

// authorizeRequest is why a request may not do what it asks for, nil if it may. Full says that the token
// for reading is not enough, and open that loopback is.
func (g *guard) authorizeRequest(r *http.Request, full, open bool) *api.Error {
	switch has := g.authenticateRequest(r); {
	case has == fullAccess, !full && (has == readAccess || open && g.openReads):
		return nil
	case has == readAccess:
		return &api.Error{
			Status: http.StatusForbidden, Code: api.CodeForbidden,
			Message: "this token is for reading alone", Hint: "use the token that may change something",
		}
	}
	return newUnauthorizedError(r)
}

// checkOrigin is why a request is not served, nil if it is.
func (g *guard) checkOrigin(r *http.Request) *api.Error {
	if !g.isKnownHost(r) {
		return &api.Error{
			Status: http.StatusMisdirectedRequest, Code: api.CodeForbidden,
			Message: "the server is not known by the name in the request", Hint: "use its address, localhost, or a name that --http-hosts has",
		}
	}
	if err := g.crossOrigin.Check(r); err != nil {
		return &api.Error{Status: http.StatusForbidden, Code: api.CodeForbidden, Message: "a page of another site asks", Hint: err.Error()}
	}
	return nil
}

// newUnauthorizedError is the answer to a request without a token.
func newUnauthorizedError(r *http.Request) *api.Error {
	e := &api.Error{Status: http.StatusUnauthorized, Code: api.CodeUnauthorized, Message: "a token is needed"}
	if r.Header.Get("Authorization") != "" {
		e.Message = "the token is wrong"
	}
	e.Hint = "send it as Authorization: Bearer; the server keeps it in " + api.TokenFile + " in the directory of its data, unless it was given one"
	return e
}

// findOrMakeToken returns the token, and a file that is removed at the end. Only a token that was given
// can be wrong: one that the server keeps itself is made anew, because the data is served whatever
// has become of that file.
func findOrMakeToken(o *Options) (token, left string, err error) {
	if o.Token != "" {
		return o.Token, "", checkToken(o.Token, "the token")
	}
	kept := false
	if o.Data != "" {
		token, kept = loadOrMakeToken(filepath.Join(o.Data, api.TokenFile), o.Log)
	} else {
		token = rand.Text() // 130 bits
	}
	if path, err := api.TokenPath(o.Listener.Addr().String()); err == nil {
		left = writeTokenCopy(path, token)
	}
	if left == "" && !kept {
		// A user without a directory of its own, in a container say, is served all the same.
		o.Log.Warn("nothing can be changed over HTTP: there is no place for the token; give one with http-token-file")
	}
	return token, left, nil
}

// writeTokenCopy leaves a copy for clients of the same user, which then need to know no more than
// the address: that user can read the data too. It replaces one of a server that was
// killed. If there is no place for it the directory of the data has to be named.
func writeTokenCopy(path, token string) (left string) {
	if os.MkdirAll(filepath.Dir(path), 0o700) != nil || removeIfExists(path) != nil {
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

// unusableSuffix is added to the name of a file whose token is not used.
const unusableSuffix = ".unusable"

// loadOrMakeToken reads the token of the server, or makes one that only its user can read. A file that
// has no usable token is kept under another name, where its author finds it. It reports
// whether the file has the token.
func loadOrMakeToken(path string, log *slog.Logger) (token string, kept bool) {
	token, err := readTokenFile(path)
	if err == nil {
		return token, true
	}
	_, none := os.Lstat(path)
	if !errors.Is(none, fs.ErrNotExist) {
		log.Warn("the token of the HTTP API is made anew, because the file has none of use",
			"file", path, "error", err, "old", path+unusableSuffix)
		if err := os.Rename(path, path+unusableSuffix); err != nil {
			log.Error("the file without a token of use cannot be renamed", "file", path, "error", err)
		}
	}
	token = rand.Text() // 130 bits
	if err := writeTokenFile(path, token); err != nil {
		log.Error("the token of the HTTP API cannot be kept", "file", path, "error", err)
		return token, false
	}
	return token, true
}

// writeTokenFile gives the file its name when the token is on disk.
func writeTokenFile(path, token string) error {
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

// maxTokenFileBytes is more than any token: a longer file is something else.
const maxTokenFileBytes = 4 << 10

// readTokenFile reads a token that only the user of the server can read.
func readTokenFile(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", errors.New("it is no regular file")
	case info.Size() > maxTokenFileBytes:
		return "", fmt.Errorf("it has more than %d bytes", maxTokenFileBytes)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return "", errors.New("others may read it")
	}
	token, err := api.ReadToken(path)
	if err != nil {
		return "", err
	}
	return token, checkToken(token, "it")
}

// checkToken refuses what can be guessed, or cannot be sent.
func checkToken(token, where string) error {
	plain := !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
	if len(token) < api.MinTokenChars || !plain {
		return fmt.Errorf("token of the HTTP API: %s must have at least %d printable ASCII characters without spaces", where, api.MinTokenChars)
	}
	return nil
}

// removeIfExists removes a file, if there is one.
func removeIfExists(path string) error {
	if path == "" {
		return nil
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
