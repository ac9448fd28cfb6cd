package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/config"
	"github.com/cleavekv/cleave/internal/serve"
)

func serveCommand() *cobra.Command {
	var from config.Sources
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a store to Redis clients",
		Long: `Serve a store to Redis clients.

Without flags it listens on 127.0.0.1:7379, and keeps its data in the directory
cleave-data. What it has acknowledged is on disk.

Every flag but --config can stand in a file too, under the same name, and in the
environment: CLEAVE_TLS_PORT for --tls-port. A flag counts more than the
environment, and that more than the file. SIGHUP reads the file again; what
cannot change while it runs is named, and waits for a restart.`,
		Example: `  cleave serve
  cleave serve --appendfsync everysec       as durable as Redis usually is
  cleave serve --storage memory             nothing is kept
  cleave serve --config cleave.toml         cleave config example shows a file`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runServe(cmd, from) },
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&from.File, "config", "", "`file` of settings (default none)")
	from.Flags = settingFlags(cmd)
	from.Env = os.LookupEnv
	return cmd
}

// serveQueue is how many commands may wait for a group: more than a loop brings at once.
const serveQueue = 1 << 16

// openStore opens the store that a configuration names.
func openStore(c *config.Config) (*cleave.DB, error) {
	d, err := cleave.ParseDurability(c.Text("appendfsync"))
	if err != nil {
		return nil, err
	}
	o := cleave.Options{
		Durability: d, Stores: int(c.Number("stores")), Groups: int(c.Number("groups")),
		CacheBytes: c.Number("cache-mib") << 20, Queue: serveQueue, Preload: true,
	}
	if c.Text("storage") == "memory" {
		if most := c.Number("maxmemory"); most > 0 {
			// The rest is for the tables: what is cached is in them too.
			o.CacheBytes = max(1<<20, min(o.CacheBytes, most/4/max(1, int64(o.Stores))))
			o.BlockCacheBytes = max(1<<20, min(64<<20, most/8/max(1, int64(o.Stores))))
			o.FeedBytes = max(1<<20, min(64<<20, most/8/max(1, int64(o.Stores))))
		}
		return inFlags(cleave.OpenMemory(o))
	}
	o.BlockCacheBytes = c.Number("block-cache-mib") << 20
	if c.Text("data") == "" {
		return nil, usageError{errors.New("--data is empty: name a directory")}
	}
	return inFlags(cleave.Open(c.Text("data"), o))
}

// optionFlags are the flags for options of package cleave whose values are the same.
var optionFlags = map[string]string{"Stores": "--stores", "Groups": "--groups"}

// inFlags says what is wrong with an option in the words of its flag.
func inFlags(db *cleave.DB, err error) (*cleave.DB, error) {
	var wrong *cleave.OptionError
	if !errors.As(err, &wrong) || optionFlags[wrong.Option] == "" {
		return db, err
	}
	flag, first := optionFlags[wrong.Option], ""
	if wrong.Found == "" {
		return nil, usageError{fmt.Errorf("%s is %s: use %s", flag, wrong.Value, wrong.Use)}
	}
	if wrong.Option == "Groups" {
		first = "change that with cleave group resize while it is served, and "
	}
	return nil, fmt.Errorf("%s: %sstart it with %s %s", wrong.Found, first, flag, wrong.Use)
}

// listeners are where clients come in.
type listeners struct{ plain, encrypted, http net.Listener }

// listen opens them, before the store: a port that is taken is told at once, and a
// certificate that is no use.
func listen(c *config.Config) (l listeners, err error) {
	if l.plain, err = net.Listen("tcp", c.Text("resp-addr")); err != nil {
		return l, fmt.Errorf("--resp-addr: %w: name another address", err)
	}
	if l.http, err = listenHTTP(c); err != nil {
		l.close()
		return l, err
	}
	if c.Number("tls-port") == 0 {
		return l, nil
	}
	host, _, err := net.SplitHostPort(c.Text("resp-addr"))
	if err == nil {
		l.encrypted, err = net.Listen("tcp", net.JoinHostPort(host, strconv.FormatInt(c.Number("tls-port"), 10)))
	}
	if err != nil {
		l.close()
		return l, fmt.Errorf("--tls-port: %w: name another port", err)
	}
	if _, err := tls.LoadX509KeyPair(c.Text("tls-cert-file"), c.Text("tls-key-file")); err != nil {
		l.close()
		return l, fmt.Errorf("--tls-cert-file and --tls-key-file: %w: name a certificate and its key, both as PEM", err)
	}
	return l, nil
}

func (l listeners) close() {
	l.plain.Close()
	if l.encrypted != nil {
		l.encrypted.Close()
	}
	if l.http != nil {
		l.http.Close()
	}
}

// serve serves all of them, and tells who ends.
func (l listeners) serve(s *serve.Server, o *operators, c *config.Config) <-chan error {
	ended := make(chan error, 3)
	go func() { ended <- s.Serve(l.plain) }()
	if l.encrypted != nil {
		go func() { ended <- s.ServeTLS(l.encrypted, c.Text("tls-cert-file"), c.Text("tls-key-file")) }()
	}
	if o != nil {
		go func() { ended <- o.Serve() }()
	}
	return ended
}

// warnMisspelt tells of variables that were most likely meant to be settings. It goes on:
// somebody else may use them.
func warnMisspelt(errOut io.Writer) {
	for _, m := range config.Misspelt(os.Environ(), api.EnvToken, api.EnvAddr) {
		fmt.Fprintf(errOut, "cleave: %v\n", m)
	}
}

func runServe(cmd *cobra.Command, from config.Sources) (err error) {
	warnMisspelt(cmd.ErrOrStderr())
	c, err := config.Load(from)
	if err != nil {
		return misconfigured(err)
	}
	// From here on signals are ours: one that comes early must not be lost.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	l, err := listen(c)
	if err != nil {
		return err
	}
	defer l.close()
	db, err := openStore(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	oneMoreProcessor()
	go collectOften(ctx)
	tracer, err := newTracer(cmd.Context(), c, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer closeTracer(tracer)
	s := serve.New(db, serve.Options{
		Dir: dataDir(c), Shutdown: func() { go func() { signals <- syscall.SIGTERM }() }, // it must not block
		Clients: int(c.Number("maxclients")), Fsync: c.Text("appendfsync"), Memory: c.Text("storage") == "memory",
		Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)), Version: versionNumber(), Observe: tracer.Observer(),
	})
	o, err := newOperators(c, db, s, l.http, tracer, func(err error) { fmt.Fprintf(cmd.ErrOrStderr(), "cleave: %v\n", err) })
	if err != nil {
		s.Close()
		return err
	}
	defer func() { err = errors.Join(err, o.end(s, c, signals, err == nil)) }()
	if err := s.LoadUsers(cmd.Context()); err != nil {
		return err
	}
	if err := s.Configure(c.ForClients()); err != nil {
		return err
	}
	ended := l.serve(s, o, c)
	where := c.Text("data")
	if c.Text("storage") == "memory" {
		where = "memory"
	}
	fmt.Fprintf(cmd.OutOrStdout(), "cleave is ready: redis-cli -p %d (data in %s, appendfsync %s%s)\n", l.plain.Addr().(*net.TCPAddr).Port, where, c.Text("appendfsync"), o.at())
	return superviseServe(cmd.ErrOrStderr(), s, from, c, signals, ended)
}

// dataDir returns where the store is, as clients are told: empty in memory.
func dataDir(c *config.Config) string {
	if c.Text("storage") == "memory" {
		return ""
	}
	dir, err := filepath.Abs(c.Text("data"))
	if err != nil {
		return c.Text("data")
	}
	return dir
}

// superviseServe tells the service manager how it stands, and waits for signals.
func superviseServe(errOut io.Writer, s *serve.Server, from config.Sources, c *config.Config, signals <-chan os.Signal, ended <-chan error) error {
	complain := func(err error) {
		if err != nil {
			fmt.Fprintf(errOut, "cleave: %v\n", err)
		}
	}
	complain(notify("READY=1"))
	defer func() { complain(notify("STOPPING=1")) }()
	for {
		select {
		case err := <-ended:
			return err
		case sig := <-signals:
			if sig != syscall.SIGHUP {
				return nil
			}
			c = reload(errOut, s, from, c)
		}
	}
}
