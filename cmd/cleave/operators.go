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
	"github.com/cleavekv/cleave/internal/admin"
	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/config"
	"github.com/cleavekv/cleave/internal/serve"
	"github.com/cleavekv/cleave/internal/spans"
)

// operators are those who connect by HTTP. It is nil if none may.
type operators struct {
	*admin.Admin
	addr net.Addr
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

// newOperators makes what serves operators.
func newOperators(c *config.Config, db *cleave.DB, s *serve.Server, l net.Listener, tracer *spans.Tracer, complain func(error)) (*operators, error) {
	if l == nil {
		return nil, nil
	}
	o := admin.Options{
		DB: db, Server: s, Listener: l, Token: os.Getenv(api.EnvToken), Pprof: c.Text("http-pprof") == "yes",
		Version: versionNumber(), Durability: c.Text("appendfsync"), Spans: tracer, Complain: complain,
	}
	if file := c.Text("http-token-file"); file != "" && o.Token == "" {
		token, err := api.ReadToken(file)
		if err != nil {
			return nil, fmt.Errorf("--http-token-file: %w", err)
		}
		o.Token = token
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
	return &operators{a, l.Addr()}, nil
}

// at is where operators connect, for the line that says that the server is ready.
func (o *operators) at() string {
	if o == nil {
		return ""
	}
	return ", operators at http://" + o.addr.String()
}

// end says that the server is not ready any more, and closes what clients and then what
// operators connect to. If it has served, it waits in between, until a second signal comes.
func (o *operators) end(s *serve.Server, c *config.Config, signals <-chan os.Signal, served bool) error {
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
