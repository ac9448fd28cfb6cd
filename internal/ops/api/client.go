package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
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
	// Addr is host:port, or a URL with a scheme: https:// for a server that encrypts.
	// Default DefaultAddr.
	Addr string
	// Token is for whatever changes something, and for everything at a server that does
	// not listen on loopback. See FindToken.
	Token string
	// Actor is the user of the client, for the audit log.
	Actor string
	// Timeout bounds each request. Default 30 s, and the context counts too.
	Timeout time.Duration
	// Transport is how requests travel. Default one without a proxy: a token is for the
	// server alone.
	Transport http.RoundTripper
}

const (
	defaultTimeout = 30 * time.Second
	// maxResponseBytes is more than a page of the longest keys: what is longer is no answer of
	// ours.
	maxResponseBytes = 256 << 20
)

var defaultTransport = &http.Transport{
	DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
	TLSHandshakeTimeout:   5 * time.Second,
	MaxIdleConnsPerHost:   4,
	IdleConnTimeout:       30 * time.Second,
	ResponseHeaderTimeout: 0, // the request's own bound holds
}

// CheckAddr reports whether the address is well formed. It sends no request.
func (c *Client) CheckAddr() error {
	_, err := c.BaseURL()
	return err
}

// BaseURL returns the URL of the server, without a slash at its end.
func (c *Client) BaseURL() (string, error) {
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
	return c.doJSON(ctx, http.MethodGet, path, query, nil, answer)
}

// Post asks for an action, or only for its plan.
func (c *Client) Post(ctx context.Context, path string, request any, dryRun bool) (Action, error) {
	query := url.Values{}
	if dryRun {
		query.Set(QueryDryRun, "true")
	}
	body, err := json.Marshal(request)
	if err != nil {
		return Action{}, err
	}
	var a Action
	return a, c.doJSON(ctx, http.MethodPost, path, query, body, &a)
}

// Delete asks to remove what a query names, or only for the plan.
func (c *Client) Delete(ctx context.Context, path string, query url.Values, dryRun bool) (a Action, err error) {
	if dryRun {
		query.Set(QueryDryRun, "true")
	}
	return a, c.doJSON(ctx, http.MethodDelete, path, query, nil, &a)
}

// doJSON sends a request and reads the answer, which is one of the API's or an error.
func (c *Client) doJSON(ctx context.Context, method, path string, query url.Values, body []byte, answer any) error {
	resp, text, err := c.sendRequest(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	return decodeResponse(resp, text, answer)
}

// sendRequest sends a request and returns the answer, whatever it is.
func (c *Client) sendRequest(ctx context.Context, method, path string, query url.Values, body []byte) (*http.Response, []byte, error) {
	base, err := c.BaseURL()
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
	c.setHeaders(req, body != nil)
	resp, err := c.roundTripper().RoundTrip(req)
	if err != nil {
		return nil, nil, c.classifyError(ctx, base, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxResponseBytes+1))
	if err != nil {
		return nil, nil, c.classifyError(ctx, base, fmt.Errorf("%w: %w", ErrBroken, err))
	}
	return resp, text, nil
}

// setHeaders adds the headers that identify the client.
func (c *Client) setHeaders(req *http.Request, body bool) {
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

// roundTripper sends a request once: a redirect would carry the token elsewhere, and is an
// answer that is not ours.
func (c *Client) roundTripper() http.RoundTripper {
	if c.Transport != nil {
		return c.Transport
	}
	return defaultTransport
}

// NewTrustingTransport returns a Transport that trusts the certificates of these authorities alone.
func NewTrustingTransport(authorities *x509.CertPool) http.RoundTripper {
	t := defaultTransport.Clone()
	t.TLSClientConfig = &tls.Config{RootCAs: authorities}
	return t
}

// classifyError distinguishes the ways in which no answer comes.
func (c *Client) classifyError(ctx context.Context, base string, err error) error {
	var op *net.OpError
	var timeout net.Error
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case errors.As(err, &op) && op.Op == "dial":
		return newUnreachableError(base, err)
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%s: %w: it does not encrypt: write http:// before the address", base, ErrForeign)
	case isUntrusted(err):
		return fmt.Errorf("%s: %w: %w", base, ErrUntrusted, err)
	case ctx.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("%w from %s: %w", ErrTimeout, base, err)
	case errors.Is(err, ErrBroken):
		return fmt.Errorf("%s: %w", base, err)
	}
	return fmt.Errorf("%s: %w: %w", base, ErrBroken, err)
}

// isUntrusted reports whether an error is about the certificate of the server.
func isUntrusted(err error) bool {
	var verification *tls.CertificateVerificationError
	return errors.As(err, &verification)
}

// decodeResponse takes an answer apart.
func decodeResponse(resp *http.Response, text []byte, answer any) error {
	if len(text) > maxResponseBytes {
		return fmt.Errorf("%w: it is longer than %d bytes", ErrForeign, maxResponseBytes)
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		if err := json.Unmarshal(text, answer); err != nil {
			return fmt.Errorf("%w: %w", ErrForeign, err)
		}
		return nil
	}
	if resp.StatusCode == http.StatusBadRequest && strings.Contains(string(text), "HTTP request to an HTTPS server") {
		return fmt.Errorf("%w: it speaks https: write https:// before the address", ErrForeign)
	}
	var f Failure
	if err := json.Unmarshal(text, &f); err != nil || f.Error.Code == "" {
		return fmt.Errorf("%w: it says %s", ErrForeign, resp.Status)
	}
	f.Error.Status = resp.StatusCode
	return &f.Error
}

// Status returns how the server is.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	return s, c.Get(ctx, PathStatus, nil, &s)
}

// Map returns which group has which keys.
func (c *Client) Map(ctx context.Context) (m Map, err error) {
	return m, c.Get(ctx, PathMap, nil, &m)
}

// ShardFilter chooses shards. The zero value chooses all.
type ShardFilter struct {
	Keyspace string
	Group    uint64
}

// Shards returns the shards in the order of their keys.
func (c *Client) Shards(ctx context.Context, f ShardFilter) ([]Shard, error) {
	q := url.Values{}
	if f.Keyspace != "" {
		q.Set(QueryKeyspace, f.Keyspace)
	}
	if f.Group != 0 {
		q.Set(QueryGroup, formatID(f.Group))
	}
	return listAll[Shard](ctx, c, PathShards, q)
}

// Shard returns one shard with its explanation.
func (c *Client) Shard(ctx context.Context, shard uint64) (s Shard, err error) {
	return s, c.Get(ctx, withID(PathShard, formatID(shard)), nil, &s)
}

// Groups returns all groups.
func (c *Client) Groups(ctx context.Context) ([]Group, error) {
	return listAll[Group](ctx, c, PathGroups, nil)
}

// Keyspaces returns all keyspaces by name.
func (c *Client) Keyspaces(ctx context.Context) ([]Keyspace, error) {
	return listAll[Keyspace](ctx, c, PathKeyspaces, nil)
}

// Caps returns the caps that hold.
func (c *Client) Caps(ctx context.Context) ([]Cap, error) {
	return listAll[Cap](ctx, c, PathCaps, nil)
}

// Indexes returns all indexes, or those of one keyspace.
func (c *Client) Indexes(ctx context.Context, keyspace string) ([]Index, error) {
	q := url.Values{}
	if keyspace != "" {
		q.Set(QueryKeyspace, keyspace)
	}
	return listAll[Index](ctx, c, PathIndexes, q)
}

// Jobs returns the jobs under way, and the last ones that have ended, the oldest first.
func (c *Client) Jobs(ctx context.Context) ([]Job, error) {
	return listAll[Job](ctx, c, PathJobs, nil)
}

// Job returns one job.
func (c *Client) Job(ctx context.Context, job string) (j Job, err error) {
	return j, c.Get(ctx, withID(PathJob, job), nil, &j)
}

// WaitJob looks at a job again and again until it is over or ctx ends, and hands each
// look to seen, if there is one.
func (c *Client) WaitJob(ctx context.Context, job string, every time.Duration, seen func(Job)) (Job, error) {
	for {
		j, err := c.Job(ctx, job)
		if err != nil {
			return j, err
		}
		if seen != nil {
			seen(j)
		}
		if j.HasEnded() {
			return j, nil
		}
		select {
		case <-ctx.Done():
			return j, ctx.Err()
		case <-time.After(every):
		}
	}
}

// Sagas returns the sagas of a journal, "" for the usual one: all, or those of a state,
// "stuck" included. The note says so if there is no journal.
func (c *Client) Sagas(ctx context.Context, keyspace, state string) (sagas []Saga, note string, err error) {
	q := url.Values{}
	if keyspace != "" {
		q.Set(QueryKeyspace, keyspace)
	}
	if state != "" {
		q.Set(QueryState, state)
	}
	return listPages[Saga](ctx, c, PathSagas, q)
}

// ExplainKey returns where a key is and why. keyspace is "" for the default one.
func (c *Client) ExplainKey(ctx context.Context, keyspace string, key Key) (e Explanation, err error) {
	q := url.Values{QueryKey: {key.String()}}
	if keyspace != "" {
		q.Set(QueryKeyspace, keyspace)
	}
	return e, c.Get(ctx, PathExplain, q, &e)
}

// ExplainSlot returns where a slot of a hash keyspace is.
func (c *Client) ExplainSlot(ctx context.Context, keyspace string, slot int) (e Explanation, err error) {
	q := url.Values{QuerySlot: {strconv.Itoa(slot)}}
	if keyspace != "" {
		q.Set(QueryKeyspace, keyspace)
	}
	return e, c.Get(ctx, PathExplain, q, &e)
}

// ExplainShard returns what a shard has and where it is.
func (c *Client) ExplainShard(ctx context.Context, shard uint64) (e Explanation, err error) {
	return e, c.Get(ctx, PathExplain, url.Values{QueryShard: {formatID(shard)}}, &e)
}

// Clients returns the connections of Redis clients.
func (c *Client) Clients(ctx context.Context) ([]Connection, error) {
	return listAll[Connection](ctx, c, PathClients, nil)
}

// Slowlog returns requests that took long, the newest first.
func (c *Client) Slowlog(ctx context.Context) ([]Slow, error) {
	return listAll[Slow](ctx, c, PathSlowlog, nil)
}

// Config returns the settings.
func (c *Client) Config(ctx context.Context) ([]Setting, error) {
	return listAll[Setting](ctx, c, PathConfig, nil)
}

// Backups returns the backups, the oldest first. The note says so if there is no place
// for them.
func (c *Client) Backups(ctx context.Context) (backups []Backup, note string, err error) {
	return listPages[Backup](ctx, c, PathBackups, nil)
}

// DeleteBackup removes a backup, or what was restored under that name.
func (c *Client) DeleteBackup(ctx context.Context, name string, restored, dryRun bool) (Action, error) {
	q := url.Values{QueryName: {name}}
	if restored {
		q.Set(QueryRestored, "true")
	}
	return c.Delete(ctx, PathBackups, q, dryRun)
}

// Audit returns the newest entries of the audit log, the newest first.
func (c *Client) Audit(ctx context.Context) ([]Audit, error) {
	return listAll[Audit](ctx, c, PathAudit, nil)
}

// Ready returns whether the server takes requests. That it does not is no error.
func (c *Client) Ready(ctx context.Context) (r Ready, err error) {
	resp, text, err := c.sendRequest(ctx, http.MethodGet, PathReady, url.Values{QueryVerbose: {"true"}}, nil)
	if err != nil {
		return r, err
	}
	if resp.StatusCode == http.StatusServiceUnavailable {
		resp.StatusCode = http.StatusOK // an answer like the other
	}
	return r, decodeResponse(resp, text, &r)
}

// ControlJob does one of pause, resume, cancel: the path says which.
func (c *Client) ControlJob(ctx context.Context, path, job string, dryRun bool) (Action, error) {
	return c.Post(ctx, withID(path, job), Nothing{}, dryRun)
}

// ThrottleJob bounds how fast a job copies rows; 0 lifts the bound.
func (c *Client) ThrottleJob(ctx context.Context, job string, bytesPerSecond uint64, dryRun bool) (Action, error) {
	return c.Post(ctx, withID(PathThrottleJob, job), Throttle{bytesPerSecond}, dryRun)
}

// withID puts an id into a path.
func withID(path, id string) string { return strings.Replace(path, "{id}", url.PathEscape(id), 1) }

// listAll reads a list to its end.
func listAll[T any](ctx context.Context, c *Client, path string, q url.Values) ([]T, error) {
	items, _, err := listPages[T](ctx, c, path, q)
	return items, err
}

func listPages[T any](ctx context.Context, c *Client, path string, q url.Values) (items []T, note string, err error) {
	query := url.Values{QueryLimit: {strconv.Itoa(MaxPageItems)}}
	for name, v := range q {
		query[name] = v
	}
	items = []T{}
	for {
		var p Page[T]
		if err := c.Get(ctx, path, query, &p); err != nil {
			return nil, "", err
		}
		items, note = append(items, p.Items...), p.Note
		if p.Next == "" || p.Next == query.Get(QueryAfter) {
			return items, note, nil
		}
		query.Set(QueryAfter, p.Next)
	}
}
