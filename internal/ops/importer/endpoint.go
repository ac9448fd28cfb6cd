package importer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Endpoint is a server and what of it is meant.
type Endpoint struct {
	options *redis.Options
	// Keyspace is chosen by its name, on a Cleave; "" for the usual one.
	Keyspace string
}

// ParseEndpoint reads redis://[user:password@]host:port[/db], rediss:// for an encrypted
// connection, unix:// for a socket, or a bare host:port.
func ParseEndpoint(text string) (Endpoint, error) {
	if !strings.Contains(text, "://") {
		if _, _, err := net.SplitHostPort(text); err != nil {
			return Endpoint{}, fmt.Errorf("%q: want host:port or redis://[user:password@]host:port[/db]", text)
		}
		text = "redis://" + text
	}
	o, err := redis.ParseURL(text)
	if err != nil {
		// The error of a URL has all of it, the password included.
		return Endpoint{}, fmt.Errorf("want redis://[user:password@]host:port[/db], rediss:// or unix://; what was given is no such address")
	}
	if _, port, err := net.SplitHostPort(o.Addr); err == nil && o.Network == "tcp" {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return Endpoint{}, fmt.Errorf("the port %q is none: want 1 to 65535", port)
		}
	}
	return Endpoint{options: o}, nil
}

// String is the place without its password.
func (p Endpoint) String() string {
	name := fmt.Sprintf("%s/%d", p.options.Addr, p.options.DB)
	if p.Keyspace != "" {
		name += "/" + p.Keyspace
	}
	return name
}

// discardLogger lets the client library say nothing by itself: errors are returned.
type discardLogger struct{}

// Printf implements the logger of the library.
func (discardLogger) Printf(context.Context, string, ...any) {}

var silenceLibrary = sync.OnceFunc(func() { redis.SetLogger(discardLogger{}) })

// defaultTimeout is how long a server may take to answer a page of an import, unless its address
// says otherwise, and how long a target may have too much to do.
const defaultTimeout = 20 * time.Second

func (p Endpoint) newClient() *redis.Client {
	silenceLibrary()
	o := *p.options
	o.ContextTimeoutEnabled = true // a command that waits is left when the import is interrupted
	o.DisableIdentity = true
	if o.ReadTimeout == 0 {
		o.ReadTimeout = defaultTimeout
	}
	if p.Keyspace != "" {
		o.OnConnect = func(ctx context.Context, c *redis.Conn) error { return c.Do(ctx, "SELECT", p.Keyspace).Err() }
	}
	return redis.NewClient(&o)
}

// ErrUnreachable means that a server does not answer: start it, or name another.
var ErrUnreachable = errors.New("it does not answer")

// wrapError names the place in an error, and tells one that does not answer from one that
// refuses.
func (p Endpoint) wrapError(side string, err error) error {
	if isReplyError(err) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s %s: %w", side, p, err)
	}
	return fmt.Errorf("%s %s: %w: %w", side, p, ErrUnreachable, err)
}

// CountKeys is how many keys a target has.
func (p Endpoint) CountKeys(ctx context.Context) (int64, error) {
	c := p.newClient()
	defer c.Close()
	n, err := c.DBSize(ctx).Result()
	if err != nil {
		return 0, p.wrapError("target", err)
	}
	return n, nil
}

// Ping asks whether a source answers.
func (p Endpoint) Ping(ctx context.Context) error {
	c := p.newClient()
	defer c.Close()
	if err := c.Ping(ctx).Err(); err != nil {
		return p.wrapError("source", err)
	}
	return nil
}
