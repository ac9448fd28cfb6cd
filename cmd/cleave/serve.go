package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/memlimit"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/config"
	"github.com/cleavekv/cleave/internal/ops/oplog"
	"github.com/cleavekv/cleave/internal/server"
)

func newServeCommand() *cobra.Command {
	var from config.Sources
	var acceptLoss bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a store to Redis clients",
		Long: `Serve a store to Redis clients.

Without flags it listens on 127.0.0.1:7379, and keeps its data in the directory
cleave-data. What it has acknowledged is on disk.

Every flag but --config and --accept-data-loss can stand in a file too, under the
same name, and in the environment: CLEAVE_TLS_PORT for --tls-port (but
CLEAVE_RESP_ADDR for --port: Kubernetes sets CLEAVE_PORT). A flag counts more than
the environment, and that more than the file. SIGHUP reads the file again and opens
the log anew; what cannot change while it runs is named, and waits for a restart.

The log goes to stderr or to --logfile. The line on stdout that begins with
"cleave is ready" is for scripts that wait for it.`,
		Example: `  cleave serve
  cleave serve --bind 0.0.0.0 --port 6380   where it listens, as Redis says it
  cleave serve --appendfsync everysec       as durable as Redis usually is
  cleave serve --storage memory             nothing is kept
  cleave serve --config cleave.toml         cleave config example shows a file`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runServe(cmd, from, acceptLoss) },
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&from.File, "config", "", "`file` of settings (default none)")
	from.Flags = addSettingFlags(cmd)
	cmd.Flags().BoolVar(&acceptLoss, "accept-data-loss", false,
		"go on with what is left where acknowledged data is\nmissing, and say what is known to be lost and up to how\nmuch may be; for one start, after a copy of the data was made")
	from.Env = os.LookupEnv
	return cmd
}

// maxQueuedCommands is how many commands may wait for a group: more than a loop brings at once.
const maxQueuedCommands = 1 << 16

// openStore opens the store that a configuration names, in a process that may take so much memory.
func openStore(c *config.Config, memory int64, acceptLoss bool, log *slog.Logger) (*cleave.DB, error) {
	d, err := cleave.ParseDurability(c.Text("appendfsync"))
	if err != nil {
		return nil, err
	}
	o := cleave.Options{
		Durability: d, Stores: int(c.Number("stores")), Groups: int(c.Number("groups")),
		QueueLimit: maxQueuedCommands, Preload: true, AcceptDataLoss: acceptLoss, Logger: log, HeatOff: c.Text("heat") == "off",
	}
	rows, blocks := computeCacheSizes(c, memory)
	o.CacheBytes = rows
	if c.Text("storage") == "memory" {
		if most := computeMaxMemory(c, memory) / max(1, int64(o.Stores)); most > 0 {
			// The rest is for the tables: what is cached is in them too.
			o.CacheBytes = max(1<<20, min(o.CacheBytes, most/4))
			o.BlockCacheBytes = max(1<<20, min(maxMemoryBlockCache, most/8))
			o.FeedBytes = max(1<<20, min(maxMemoryFeed, most/8))
		}
		return withFlagErrors(cleave.OpenMemory(o))
	}
	o.BlockCacheBytes = blocks
	if c.Text("data") == "" {
		return nil, usageError{errors.New("--data is empty: name a directory")}
	}
	if err := checkNotBackup(c.Text("data")); err != nil {
		return nil, err
	}
	db, err := withFlagErrors(cleave.Open(c.Text("data"), o))
	if errors.Is(err, cleave.ErrDataLoss) {
		err = fmt.Errorf("%w: to go on with what is left, copy the directory and start once with --accept-data-loss", err)
	}
	return db, err
}

// checkNotBackup refuses to serve a backup where it lies: it would be a backup no more.
func checkNotBackup(dir string) error {
	if !node.IsBackup(dir) {
		return nil
	}
	to := filepath.Base(dir)
	if path, err := filepath.Abs(dir); err == nil {
		to = filepath.Base(path)
	}
	to += "-restored"
	return usageError{fmt.Errorf("--data %s is a backup, and would be changed: restore it with: cleave restore %s --data %s, and start with --data %s",
		dir, quoteShell(dir), quoteShell(to), quoteShell(to))}
}

// quoteShell writes a path so that a shell takes it for one word.
func quoteShell(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool {
		return !strings.ContainsRune("/._-+:@%,=", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

// optionFlags are the flags for options of package cleave whose values are the same.
var optionFlags = map[string]string{"Stores": "--stores", "Groups": "--groups"}

// withFlagErrors describes a wrong option in the words of its flag.
func withFlagErrors(db *cleave.DB, err error) (*cleave.DB, error) {
	var wrong *cleave.OptionError
	if !errors.As(err, &wrong) || optionFlags[wrong.Option] == "" {
		return db, err
	}
	flag := optionFlags[wrong.Option]
	if wrong.Found == "" {
		return nil, usageError{fmt.Errorf("%s is %s: use %s", flag, wrong.Value, wrong.Use)}
	}
	return nil, fmt.Errorf("%s: start it with %s %s, or name a new directory with --data", wrong.Found, flag, wrong.Use)
}

// warnGroups warns of a number of groups that is not that of the directory: it is for a new one.
func warnGroups(log *slog.Logger, c *config.Config, db *cleave.DB) {
	if want, have := int(c.Number("groups")), len(db.Groups()); want != 0 && want != have {
		log.Warn("the setting groups is for a new directory", "groups", have, "setting", want, "hint", fmt.Sprintf("cleave group resize %d changes how many there are", want))
	}
}

// listeners are where clients come in.
type listeners struct{ plain, encrypted, http net.Listener }

// openListeners opens them, before the store: a port that is taken is reported at once, and so is
// an unusable certificate.
func openListeners(c *config.Config) (l listeners, err error) {
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	for _, prefix := range []string{"", "http-"} {
		cert, key := prefix+"tls-cert-file", prefix+"tls-key-file"
		if c.Text(cert) == "" {
			continue
		}
		if _, err := tls.LoadX509KeyPair(c.Text(cert), c.Text(key)); err != nil {
			return l, fmt.Errorf("--%s and --%s: %w: name a certificate and its key, both as PEM", cert, key, err)
		}
	}
	if addr := c.RespAddr(); addr != "" {
		if l.plain, err = net.Listen("tcp", addr); err != nil {
			return l, fmt.Errorf("listen for Redis clients: %w: name another place with --port, --bind or --resp-addr", err)
		}
	}
	if l.http, err = listenHTTP(c); err != nil {
		return l, err
	}
	if addr := c.TLSAddr(); addr != "" {
		if l.encrypted, err = net.Listen("tcp", addr); err != nil {
			return l, fmt.Errorf("--tls-port: %w: name another port", err)
		}
	}
	return l, nil
}

func (l listeners) close() {
	for _, x := range []net.Listener{l.plain, l.encrypted, l.http} {
		if x != nil {
			x.Close()
		}
	}
}

// formatTryCommand is a command line that reaches the server.
func (l listeners) formatTryCommand() string {
	if l.plain == nil {
		return fmt.Sprintf("redis-cli --tls -p %d", l.encrypted.Addr().(*net.TCPAddr).Port)
	}
	return fmt.Sprintf("redis-cli -p %d", l.plain.Addr().(*net.TCPAddr).Port)
}

// serveAll serves all of them, and reports which one ends.
func (l listeners) serveAll(s *server.Server, o *operatorServer, c *config.Config) <-chan error {
	ended := make(chan error, 3)
	if l.plain != nil {
		go func() { ended <- s.Serve(l.plain) }()
	}
	if l.encrypted != nil {
		go func() { ended <- s.ServeTLS(l.encrypted, c.Text("tls-cert-file"), c.Text("tls-key-file")) }()
	}
	if o != nil {
		go func() { ended <- o.Serve() }()
	}
	return ended
}

// findMisspeltVariables returns variables that were most likely meant to be settings. The server goes on:
// another program may use them.
func findMisspeltVariables() []config.Mistake {
	return config.FindMisspelt(os.Environ(), api.EnvToken, api.EnvReadToken, api.EnvAddr, api.EnvCACert)
}

func runServe(cmd *cobra.Command, from config.Sources, acceptLoss bool) (err error) {
	began := time.Now()
	c, err := config.Load(from)
	if err != nil {
		for _, m := range findMisspeltVariables() {
			fmt.Fprintf(cmd.ErrOrStderr(), "cleave: %v\n", m)
		}
		return toConfigError(err)
	}
	log, level, err := openLog(c, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	defer func() {
		if err != nil && c.Text("logfile") != "" { // elsewhere it is on stderr in any case
			log.Error("the server ends", "error", err)
		}
	}()
	for _, m := range findMisspeltVariables() {
		log.Warn("a variable is misspelt", "variable", m.Location, "error", m.Text)
	}
	logStart(log.Logger, c, from.File)
	// From here on signals are ours: one that comes early must not be lost.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	tokens, err := readTokens(c)
	if err != nil {
		return err
	}
	l, err := openListeners(c)
	if err != nil {
		return err
	}
	defer l.close()
	limit := memlimit.Read(os.DirFS("/"))
	limitHeap(c, limit)
	db, err := openStore(c, limit.Bytes(), acceptLoss, log.Logger)
	if err != nil {
		return err
	}
	var ending shutdownLog
	defer func() {
		err = errors.Join(err, db.Close())
		ending.logStopped(log.Logger, err)
	}()
	warnGroups(log.Logger, c, db)
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	addProcessor()
	go tuneGarbageCollection(ctx, db, c.Text("storage") == "memory")
	tracer, err := newTracer(cmd.Context(), c, log.Logger)
	if err != nil {
		return err
	}
	defer closeTracer(tracer)
	s := server.New(db, server.Options{
		Dir: findDataDir(c), Shutdown: func() { go func() { signals <- shutdownSignal{} }() }, // it must not block
		Clients: int(c.Number("maxclients")), Loops: int(c.Number("io-threads")), Fsync: c.Text("appendfsync"), Memory: c.Text("storage") == "memory", MaxWriteBytes: computeMaxWriteBytes(limit.Bytes()), Cluster: c.Text("cluster-enabled") == "yes",
		Log: log.Logger, LogLevel: level, LogFile: c.Text("logfile"), Version: readModuleVersion(), Observe: tracer.Observer(),
	})
	run := &runningServer{log: log, s: s, from: from, memory: limit.Bytes(), started: c, latest: c}
	o, err := newOperatorServer(run, db, l.http, tokens, tracer)
	if err != nil {
		s.Close()
		return err
	}
	defer func() { err = errors.Join(err, o.drainAndClose(s, c, signals, err == nil)) }()
	if err := s.LoadUsers(cmd.Context()); err != nil {
		return err
	}
	forClients := c.ClientSettings()
	deriveClientSettings(forClients, c, limit.Bytes())
	forClients["maxmemory-clients"] = defaultClientMemory(limit.Bytes())
	if err := s.Configure(forClients); err != nil {
		return err
	}
	ended := l.serveAll(s, o, c)
	logReady(log.Logger, l, o, time.Since(began))
	where := c.Text("data")
	if c.Text("storage") == "memory" {
		where = "memory"
	}
	fmt.Fprintf(cmd.OutOrStdout(), "cleave is ready: %s (data in %s, appendfsync %s%s)\n", l.formatTryCommand(), where, c.Text("appendfsync"), o.formatReady())
	ending, err = run.runUntilSignal(signals, ended)
	return err
}

// findDataDir returns where the store is, as clients see it: empty in memory.
func findDataDir(c *config.Config) string {
	if c.Text("storage") == "memory" {
		return ""
	}
	dir, err := filepath.Abs(c.Text("data"))
	if err != nil {
		return c.Text("data")
	}
	return dir
}

// runningServer is a server that runs, with its configuration.
type runningServer struct {
	log  *oplog.Log
	s    *server.Server
	from config.Sources
	// memory is how much the process may take, 0 if that is not known.
	memory int64

	mu              sync.Mutex
	started, latest *config.Config
}

// currentConfig returns the configuration that the server was started with, and the latest that it has
// read.
func (r *runningServer) currentConfig() (started, latest *config.Config) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.started, r.latest
}

// runUntilSignal reports the state of the server to the service manager, and waits for signals until one
// of them ends the server.
func (r *runningServer) runUntilSignal(signals <-chan os.Signal, ended <-chan error) (shutdownLog, error) {
	notify := func(state string) {
		if err := notifyServiceManager(state); err != nil {
			r.log.Warn("the service manager cannot be told", "error", err)
		}
	}
	notify("READY=1")
	defer notify("STOPPING=1")
	for {
		select {
		case err := <-ended:
			return beginShutdown(r.log.Logger, "a listener has failed"), err
		case sig := <-signals:
			if sig != syscall.SIGHUP {
				return beginShutdown(r.log.Logger, formatSignal(sig)), nil
			}
			r.reloadConfig()
		}
	}
}
