package main

import (
	"errors"
	"fmt"
	"net"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/serve"
)

// serveOptions are the flags of serve.
type serveOptions struct {
	data, storage, fsync, respAddr string
	tlsAddr, tlsCert, tlsKey       string
	stores, groups                 int
	cacheMiB                       int64
}

func serveCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a store to Redis clients",
		Long: `Serve a store to Redis clients.

Without flags it listens on 127.0.0.1:7379, and keeps its data in the directory
cleave-data. What it has acknowledged is on disk.`,
		Example: `  cleave serve
  cleave serve --appendfsync everysec       as durable as Redis usually is
  cleave serve --storage memory             nothing is kept`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runServe(cmd, &o) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&o.data, "data", "cleave-data", "`directory` of the data, made if there is none")
	flags.StringVar(&o.storage, "storage", "disk", "disk or memory")
	flags.StringVar(&o.fsync, "appendfsync", "always", "when a write is acknowledged: always (it is on disk),\neverysec (it is within a second) or no")
	flags.StringVar(&o.respAddr, "resp-addr", "127.0.0.1:7379", "`address` for Redis clients")
	flags.StringVar(&o.tlsAddr, "tls-addr", "", "`address` for Redis clients that encrypt (default none)")
	flags.StringVar(&o.tlsCert, "tls-cert", "", "`file` of the certificate for --tls-addr; a new one is used when it is there")
	flags.StringVar(&o.tlsKey, "tls-key", "", "`file` of its key")
	flags.IntVar(&o.stores, "stores", 0, "how many logs and stores there are (default what there is, 1 at first)")
	flags.IntVar(&o.groups, "groups", 0, "how many groups execute commands (default what there is, one for each store at first)")
	flags.Int64Var(&o.cacheMiB, "cache-mib", 512, "memory for rows, of each store, in `MiB`")
	completeFlags(cmd, map[string]cobra.CompletionFunc{
		"storage":     cobra.FixedCompletions([]string{"disk", "memory"}, cobra.ShellCompDirectiveNoFileComp),
		"appendfsync": cobra.FixedCompletions([]string{"always", "everysec", "no"}, cobra.ShellCompDirectiveNoFileComp),
	})
	return cmd
}

// serveQueue is how many commands may wait for a group: more than a loop brings at once.
const serveQueue = 1 << 16

// check refuses words that are none, before anything is opened.
func (o *serveOptions) check() error {
	if _, err := cleave.ParseDurability(o.fsync); err != nil {
		return usageError{fmt.Errorf("--appendfsync %q: want always, everysec or no", o.fsync)}
	}
	if o.storage != "disk" && o.storage != "memory" {
		return usageError{fmt.Errorf("--storage %q: want disk or memory", o.storage)}
	}
	return nil
}

// open opens the store. The options were checked.
func (o *serveOptions) open() (*cleave.DB, error) {
	d, err := cleave.ParseDurability(o.fsync)
	if err != nil {
		return nil, err
	}
	opts := cleave.Options{Durability: d, Stores: o.stores, Groups: o.groups, CacheBytes: o.cacheMiB << 20, Queue: serveQueue}
	if o.storage == "memory" {
		return cleave.OpenMemory(opts)
	}
	return cleave.Open(o.data, opts)
}

// listenTLS listens for clients that encrypt, if there are to be any.
func (o *serveOptions) listenTLS() (net.Listener, error) {
	if o.tlsAddr == "" {
		if o.tlsCert != "" || o.tlsKey != "" {
			return nil, usageError{errors.New("--tls-cert and --tls-key are for --tls-addr: say where to listen")}
		}
		return nil, nil
	}
	if o.tlsCert == "" || o.tlsKey == "" {
		return nil, usageError{errors.New("--tls-addr needs --tls-cert and --tls-key")}
	}
	l, err := net.Listen("tcp", o.tlsAddr)
	if err != nil {
		return nil, fmt.Errorf("--tls-addr: %w", err)
	}
	return l, nil
}

func runServe(cmd *cobra.Command, o *serveOptions) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	l, err := net.Listen("tcp", o.respAddr)
	if err != nil {
		return fmt.Errorf("--resp-addr: %w", err)
	}
	defer l.Close()
	encrypted, err := o.listenTLS()
	if err != nil {
		return err
	}
	db, err := o.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	s := serve.New(db, serve.Options{Fsync: o.fsync, Version: versionNumber()})
	defer s.Close()
	ended := make(chan error, 2)
	go func() { ended <- s.Serve(l) }()
	if encrypted != nil {
		defer encrypted.Close()
		go func() { ended <- s.ServeTLS(encrypted, o.tlsCert, o.tlsKey) }()
	}
	where := o.data
	if o.storage == "memory" {
		where = "memory"
	}
	fmt.Fprintf(cmd.OutOrStdout(), "cleave is ready: redis-cli -p %d (data in %s, appendfsync %s)\n", l.Addr().(*net.TCPAddr).Port, where, o.fsync)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}
