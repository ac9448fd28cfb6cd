package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/ops/admin"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/config"
	"github.com/cleavekv/cleave/internal/ops/tracing"
	"github.com/cleavekv/cleave/internal/server"
)

// operatorServer serves operators, by HTTP. It is nil if none is configured.
type operatorServer struct {
	*admin.Admin
	addr    net.Addr
	usesTLS bool
}

// listenHTTP listens for operators, if there are to be any.
func listenHTTP(c *config.Config) (net.Listener, error) {
	if c.Text("http-addr") == "none" {
		return nil, nil
	}
	l, err := net.Listen("tcp", c.Text("http-addr"))
	if err != nil {
		return nil, fmt.Errorf("--http-addr: %w: name another address, or none", err)
	}
	return l, nil
}

// operatorTokens are what operators are let in with.
type operatorTokens struct{ full, read string }

// readTokens reads the tokens that the server was given, before anything is served: an unusable
// one is reported at once.
func readTokens(c *config.Config) (operatorTokens, error) {
	t := operatorTokens{os.Getenv(api.EnvToken), os.Getenv(api.EnvReadToken)}
	for _, x := range []struct {
		setting string
		token   *string
	}{{"http-token-file", &t.full}, {"http-read-token-file", &t.read}} {
		file := c.Text(x.setting)
		if file == "" || *x.token != "" {
			continue
		}
		token, err := api.ReadToken(file)
		if err == nil && token == "" {
			err = fmt.Errorf("%s is empty", file)
		}
		if err != nil {
			return t, fmt.Errorf("--%s: %w: name a file that has a token", x.setting, err)
		}
		*x.token = token
	}
	return t, nil
}

// newOperatorServer makes what serves operators.
func newOperatorServer(r *runningServer, db *cleave.DB, l net.Listener, t operatorTokens, tracer *tracing.Tracer) (*operatorServer, error) {
	if l == nil {
		return nil, nil
	}
	c := r.started
	o := admin.Options{
		DB: db, Server: r.s, Listener: l, Token: t.full, ReadToken: t.read, Pprof: c.Text("http-pprof") == "yes",
		Version: readModuleVersion(), Durability: c.Text("appendfsync"), Tracer: tracer, Log: r.log.Logger, Config: r.currentConfig,
	}
	if cert := c.Text("http-tls-cert-file"); cert != "" {
		var err error
		if o.TLS, err = server.TLSConfig(cert, c.Text("http-tls-key-file")); err != nil {
			return nil, err
		}
	}
	if names := c.Text("http-hosts"); names != "" {
		o.Hosts = strings.Split(strings.ReplaceAll(names, " ", ""), ",")
	}
	if c.Text("storage") != "memory" {
		o.Data, o.Backups = c.Text("data"), c.Text("backup-dir")
		if o.Backups == "" {
			o.Backups = strings.TrimRight(o.Data, `/\`) + "-backups"
		}
	}
	a, err := admin.New(o)
	if err != nil {
		return nil, err
	}
	return &operatorServer{a, l.Addr(), o.TLS != nil}, nil
}

// baseURL is where operators connect.
func (o *operatorServer) baseURL() string {
	if o.usesTLS {
		return "https://" + o.addr.String()
	}
	return "http://" + o.addr.String()
}

// formatReady is where operators connect, for the line that says that the server is ready.
func (o *operatorServer) formatReady() string {
	if o == nil {
		return ""
	}
	return ", operators and their page at " + o.baseURL()
}

// drainAndClose reports that the server is not ready any more, and closes what clients and then what
// operators connect to. If it has served, it waits in between, until a second signal comes.
func (o *operatorServer) drainAndClose(s *server.Server, c *config.Config, signals <-chan os.Signal, served bool) error {
	if o == nil {
		s.Close()
		return nil
	}
	o.Drain()
	wait := time.After(time.Duration(c.Number("shutdown-delay")) * time.Second)
	for waiting := served; waiting; {
		select {
		case sig := <-signals:
			waiting = sig == syscall.SIGHUP
		case <-wait:
			waiting = false
		}
	}
	s.Close()
	if err := o.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
