package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Client talks to a server. Its fields are set before it is used; its methods may be
// called by any goroutine.
type Client struct {
	// Addr is host:port, or a URL with a scheme: https:// for a server behind something
	// that encrypts. Default DefaultAddr.
	Addr string
	// Token is for whatever changes something, and for everything at a server that does
	// not listen on loopback. See FindToken.
	Token string
	// Actor is what to tell the audit log about who uses the client.
	Actor string
	// Timeout bounds each request. Default 30 s, and the context counts too.
	Timeout time.Duration
	// Transport is how requests travel. Default one without a proxy: a token is for the
	// server alone.
	Transport http.RoundTripper
}

const (
	defaultTimeout = 30 * time.Second
	// maxAnswer is more than a page of the longest keys: what is longer is no answer of
	// ours.
	maxAnswer = 256 << 20
)

var direct = &http.Transport{
	DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
	TLSHandshakeTimeout:   5 * time.Second,
	MaxIdleConnsPerHost:   4,
	IdleConnTimeout:       30 * time.Second,
	ResponseHeaderTimeout: 0, // the request's own bound holds
}

// Check reports whether the address is one. Nobody is asked.
func (c *Client) Check() error {
	_, err := c.base()
	return err
}

// base is the URL of the server.
func (c *Client) base() (string, error) {
	addr := c.Addr
	if addr == "" {
		addr = DefaultAddr
	}
	if !strings.Contains(addr, "://") {
		addr = "http://" + addr
	}
	u, err := url.Parse(addr)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.User != nil {
		return "", fmt.Errorf("address %q: want host:port, or a URL with http or https and nothing behind the port", c.Addr)
	}
	if port := u.Port(); port != "" {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return "", fmt.Errorf("address %q: the port %q is none: want 1 to 65535", c.Addr, port)
		}
	}
	return u.Scheme + "://" + u.Host, nil
}

// Get reads a path, which may have a query, into an answer.
func (c *Client) Get(ctx context.Context, path string, query url.Values, answer any) error {
	return c.do(ctx, http.MethodGet, path, query, nil, answer)
}

// Act asks for an action, or only for its plan.
func (c *Client) Act(ctx context.Context, path string, request any, dryRun bool) (Action, error) {
	query := url.Values{}
	if dryRun {
		query.Set(QueryDryRun, "true")
	}
	body, err := json.Marshal(request)
	if err != nil {
		return Action{}, err
	}
	var a Action
	return a, c.do(ctx, http.MethodPost, path, query, body, &a)
}

// do sends a request and reads the answer, which is one of the API's or an error.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, body []byte, answer any) error {
	resp, text, err := c.send(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	return read(resp, text, answer)
}

// send sends a request and returns the answer, whatever it is.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, body []byte) (*http.Response, []byte, error) {
	base, err := c.base()
	if err != nil {
		return nil, nil, err
	}
	timeout := c.Timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	target := base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	c.sign(req, body != nil)
	resp, err := c.transport().RoundTrip(req)
	if err != nil {
		return nil, nil, c.failed(ctx, base, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, nil, c.failed(ctx, base, fmt.Errorf("%w: %w", ErrBroken, err))
	}
	return resp, text, nil
}

// sign says who asks.
func (c *Client) sign(req *http.Request, body bool) {
	if body {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if c.Actor != "" {
		req.Header.Set(HeaderActor, strings.Map(func(r rune) rune {
			if r < ' ' || r > '~' {
				return '?'
			}
			return r
		}, c.Actor))
	}
}

// transport sends a request once: a redirect would carry the token elsewhere, and is an
// answer that is not ours.
func (c *Client) transport() http.RoundTripper {
	if c.Transport != nil {
		return c.Transport
	}
	return direct
}

// failed tells one way in which no answer comes from another.
func (c *Client) failed(ctx context.Context, base string, err error) error {
	var op *net.OpError
	var timeout net.Error
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case errors.As(err, &op) && op.Op == "dial":
		return unreachable(base, err)
	case ctx.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("%w from %s: %w", ErrTimeout, base, err)
	case errors.Is(err, ErrBroken):
		return fmt.Errorf("%s: %w", base, err)
	}
	return fmt.Errorf("%s: %w: %w", base, ErrBroken, err)
}

// read takes an answer apart.
func read(resp *http.Response, text []byte, answer any) error {
	if len(text) > maxAnswer {
		return fmt.Errorf("%w: it is longer than %d bytes", ErrForeign, maxAnswer)
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		if err := json.Unmarshal(text, answer); err != nil {
			return fmt.Errorf("%w: %w", ErrForeign, err)
		}
		return nil
	}
	var f Failure
	if err := json.Unmarshal(text, &f); err != nil || f.Error.Code == "" {
		return fmt.Errorf("%w: it says %s", ErrForeign, resp.Status)
	}
	f.Error.Status = resp.StatusCode
	return &f.Error
}
