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

// Place is a server and what of it is meant.
type Place struct {
	options *redis.Options
	// Keyspace is chosen by its name, on a Cleave; "" for the usual one.
	Keyspace string
}

// ParsePlace reads redis://[user:password@]host:port[/db], rediss:// for an encrypted
// connection, unix:// for a socket, or a bare host:port.
func ParsePlace(text string) (Place, error) {
	if !strings.Contains(text, "://") {
		if _, _, err := net.SplitHostPort(text); err != nil {
			return Place{}, fmt.Errorf("%q: want host:port or redis://[user:password@]host:port[/db]", text)
		}
		text = "redis://" + text
	}
	o, err := redis.ParseURL(text)
	if err != nil {
		// The error of a URL has all of it, the password included.
		return Place{}, fmt.Errorf("want redis://[user:password@]host:port[/db], rediss:// or unix://; what was given is no such address")
	}
	if _, port, err := net.SplitHostPort(o.Addr); err == nil && o.Network == "tcp" {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return Place{}, fmt.Errorf("the port %q is none: want 1 to 65535", port)
		}
	}
	return Place{options: o}, nil
}

// String is the place without its password.
func (p Place) String() string {
	name := fmt.Sprintf("%s/%d", p.options.Addr, p.options.DB)
	if p.Keyspace != "" {
		name += "/" + p.Keyspace
	}
	return name
}

// quiet lets the client library say nothing by itself: errors are returned.
type quiet struct{}

// Printf implements the logger of the library.
func (quiet) Printf(context.Context, string, ...any) {}

var hush = sync.OnceFunc(func() { redis.SetLogger(quiet{}) })

// patience is how long a server may take to answer a page of an import, unless its address
// says otherwise, and how long a target may have too much to do.
const patience = 20 * time.Second

func (p Place) connect() *redis.Client {
	hush()
	o := *p.options
	o.ContextTimeoutEnabled = true // a command that waits is left when the import is interrupted
	o.DisableIdentity = true
	if o.ReadTimeout == 0 {
		o.ReadTimeout = patience
	}
	if p.Keyspace != "" {
		o.OnConnect = func(ctx context.Context, c *redis.Conn) error { return c.Do(ctx, "SELECT", p.Keyspace).Err() }
	}
	return redis.NewClient(&o)
}

// ErrUnreachable means that a server does not answer: start it, or name another.
var ErrUnreachable = errors.New("it does not answer")

// failed names the place in an error, and tells one that does not answer from one that
// refuses.
func (p Place) failed(side string, err error) error {
	if answer(err) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s %s: %w", side, p, err)
	}
	return fmt.Errorf("%s %s: %w: %w", side, p, ErrUnreachable, err)
}

// Keys is how many keys a target has.
func (p Place) Keys(ctx context.Context) (int64, error) {
	c := p.connect()
	defer c.Close()
	n, err := c.DBSize(ctx).Result()
	if err != nil {
		return 0, p.failed("target", err)
	}
	return n, nil
}

// Ping asks whether a source answers.
func (p Place) Ping(ctx context.Context) error {
	c := p.connect()
	defer c.Close()
	if err := c.Ping(ctx).Err(); err != nil {
		return p.failed("source", err)
	}
	return nil
}
