package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/cleavekv/cleave/internal/api"
)

// guard decides who is served.
type guard struct {
	// open tells that reads need no token: the listener is on loopback.
	open  bool
	hosts []string
	token [sha256.Size]byte
	cross *http.CrossOriginProtection
}

func newGuard(addr net.Addr, hosts []string, token string) guard {
	g := guard{hosts: []string{"localhost"}, token: sha256.Sum256([]byte(token)), cross: http.NewCrossOriginProtection()}
	for _, h := range hosts {
		g.hosts = append(g.hosts, strings.ToLower(strings.TrimSuffix(h, ".")))
	}
	if at, err := netip.ParseAddrPort(addr.String()); err == nil {
		g.open = at.Addr().Unmap().IsLoopback()
	}
	return g
}

// headers are of every answer: nothing of it is a page, or is kept.
func headers(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// known tells whether a request names the server as it is known. A page can make its own
// name mean this machine, and would then be of the same origin; it cannot choose what the
// browser writes into Host.
func (g *guard) known(r *http.Request) bool {
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

// admits tells whether a request has the token. Digests are compared, so that neither
// the bytes nor the length of what was sent shows in the time that it takes.
func (g *guard) admits(r *http.Request) bool {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return ok && strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
}

// refuses is why a request is not served, nil if it is.
func (g *guard) refuses(r *http.Request) *api.Error {
	if !g.known(r) {
		return &api.Error{
			Status: http.StatusMisdirectedRequest, Code: api.CodeForbidden,
			Message: "the server is not known by the name in the request", Hint: "use its address, localhost, or a name that --http-hosts has",
		}
	}
	if err := g.cross.Check(r); err != nil {
		return &api.Error{Status: http.StatusForbidden, Code: api.CodeForbidden, Message: "a page of another site asks", Hint: err.Error()}
	}
	return nil
}

// unauthorized is the answer to who has no token.
func unauthorized(r *http.Request) *api.Error {
	e := &api.Error{Status: http.StatusUnauthorized, Code: api.CodeUnauthorized, Message: "a token is needed"}
	if r.Header.Get("Authorization") != "" {
		e.Message = "the token is wrong"
	}
	e.Hint = "send it as Authorization: Bearer; the server keeps it in " + api.TokenFile + " in the directory of its data, unless it was given one"
	return e
}
