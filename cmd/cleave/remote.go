package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"os/user"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/output"
	"github.com/cleavekv/cleave/internal/terminal"
)

// remote is the server that a command talks to, and how.
type remote struct {
	addr, tokenFile, data string
	timeout               time.Duration
	format                output.Format
	// tokenErr is why there is no token. It matters only if the server wants one.
	tokenErr error
}

// flags gives a command those of every command that talks to a server.
func (r *remote) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.VarP(&r.format, "output", "o", "form of the output")
	flags.StringVar(&r.addr, "addr", "", "`host:port` of the server's HTTP API\n(default "+api.EnvAddr+", or "+api.DefaultAddr+")")
	flags.StringVar(&r.tokenFile, "token-file", "", "`file` with the server's token\n(default "+api.EnvToken+", "+api.EnvTokenFile+", or what the\nserver has left in --data)")
	flags.StringVar(&r.data, "data", "", "`directory` of the server's data, for its token\n(default CLEAVE_DATA, or cleave-data on loopback)")
	flags.DurationVar(&r.timeout, "timeout", 30*time.Second, "how long to wait for an answer")
	completeMore(cmd, map[string]cobra.CompletionFunc{"output": completeOutput, "token-file": fileCompletion, "data": directoryCompletion})
}

// fromEnv is what a flag says, else a variable, else a default.
func fromEnv(flag, variable, otherwise string) string {
	if flag != "" {
		return flag
	}
	if v := os.Getenv(variable); v != "" {
		return v
	}
	return otherwise
}

// client makes a client of the server.
func (r *remote) client() (*api.Client, error) {
	if r.timeout <= 0 {
		return nil, usageError{fmt.Errorf("--timeout %v: want more than nothing, such as 30s", r.timeout)}
	}
	c := &api.Client{Addr: fromEnv(r.addr, api.EnvAddr, api.DefaultAddr), Timeout: r.timeout, Actor: actor()}
	if err := c.Check(); err != nil {
		from := "--addr"
		if r.addr == "" {
			from = api.EnvAddr
		}
		return nil, usageError{fmt.Errorf("%s: %w", from, err)}
	}
	if r.tokenFile != "" {
		var err error
		if c.Token, err = api.ReadToken(r.tokenFile); err != nil {
			return nil, usageError{fmt.Errorf("--token-file: %w", err)}
		}
		return c, nil
	}
	data := fromEnv(r.data, "CLEAVE_DATA", "")
	if data == "" && api.Loopback(c.Addr) { // another machine is not told a token that was not meant for it
		data = "cleave-data"
	}
	c.Token, r.tokenErr = api.FindToken(c.Addr, data)
	return c, nil
}

// actor is what the audit log is told about who uses the command.
func actor() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

// talk runs a conversation with the server. It ends with a signal.
func (r *remote) talk(cmd *cobra.Command, with func(ctx context.Context, c *api.Client) error) error {
	c, err := r.client()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return r.explain(with(ctx, c))
}

// explain gives an error its exit code, and says what helps.
func (r *remote) explain(err error) error {
	var said *api.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, api.ErrUnreachable):
		return coded{exitUnreachable, fmt.Errorf("%w (name another with --addr or CLEAVE_ADDR)", err)}
	case errors.Is(err, api.ErrForeign), errors.Is(err, api.ErrBroken) && errors.Is(err, io.EOF):
		return fmt.Errorf("%w (--addr and CLEAVE_ADDR want the address for operators, which is not that of Redis clients: by default %s)", err, api.DefaultAddr)
	case errors.Is(err, api.ErrTimeout), errors.Is(err, &api.Error{Code: api.CodeTimeout}), errors.Is(err, context.DeadlineExceeded):
		return coded{exitTimeout, err}
	case errors.Is(err, &api.Error{Code: api.CodeUnauthorized}):
		hint := "name its token with --token-file or " + api.EnvToken + ", or the directory of its data with --data"
		if r.tokenErr != nil {
			hint = r.tokenErr.Error()
		}
		return coded{exitFailed, fmt.Errorf("%w (%s)", err, hint)}
	case errors.As(err, &said) && said.Code == api.CodeInvalid:
		return coded{exitUsage, err}
	}
	return err
}

// person is whoever sits at the terminal of a command, if somebody does.
func person(cmd *cobra.Command) *terminal.Terminal {
	return terminal.New(cmd.InOrStdin(), cmd.ErrOrStderr())
}
