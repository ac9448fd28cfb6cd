package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
	"github.com/cleavekv/cleave/internal/ops/terminal"
)

// remote is the server that a command talks to, and how.
type remote struct {
	addr, tokenFile, data, caCert string
	timeout                       time.Duration
	format                        output.Format
	// tokenErr is why there is no token. It matters only if the server wants one.
	tokenErr error
}

// addFlags gives a command those of every command that talks to a server.
func (r *remote) addFlags(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	cmd.Flags().VarP(&r.format, "output", "o", "form of the output")
	completeMissingFlags(cmd, map[string]cobra.CompletionFunc{"output": completeOutput})
	r.addServerFlags(cmd)
}

// addServerFlags gives a command those that name the server.
func (r *remote) addServerFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&r.addr, "addr", "", "`host:port` of the server's HTTP API, or its https://\n(default "+api.EnvAddr+", or "+api.DefaultAddr+")")
	flags.StringVar(&r.caCert, "cacert", "", "`file` of certificates to trust for https://, as PEM\n(default "+api.EnvCACert+", or those of the system)")
	flags.StringVar(&r.tokenFile, "token-file", "", "`file` with the server's token\n(default "+api.EnvToken+", "+api.EnvTokenFile+", or what the\nserver has left in --data)")
	flags.StringVar(&r.data, "data", "", "`directory` of the server's data, for its token\n(default CLEAVE_DATA, or cleave-data on loopback)")
	flags.DurationVar(&r.timeout, "timeout", 30*time.Second, "how long to wait for an answer")
	completeMissingFlags(cmd, map[string]cobra.CompletionFunc{"token-file": completeFiles, "cacert": completeFiles, "data": completeDirs})
}

// flagOrEnv is what a flag says, else a variable, else a default.
func flagOrEnv(flag, variable, otherwise string) string {
	if flag != "" {
		return flag
	}
	if v := os.Getenv(variable); v != "" {
		return v
	}
	return otherwise
}

// newClient makes a client of the server.
func (r *remote) newClient() (*api.Client, error) {
	if r.timeout <= 0 {
		return nil, usageError{fmt.Errorf("--timeout %v: want more than nothing, such as 30s", r.timeout)}
	}
	c := &api.Client{Addr: flagOrEnv(r.addr, api.EnvAddr, api.DefaultAddr), Timeout: r.timeout, Actor: currentActor()}
	if err := c.CheckAddr(); err != nil {
		from := "--addr"
		if r.addr == "" {
			from = api.EnvAddr
		}
		return nil, usageError{fmt.Errorf("%s: %w", from, err)}
	}
	if file := flagOrEnv(r.caCert, api.EnvCACert, ""); file != "" {
		pem, err := os.ReadFile(file)
		authorities := x509.NewCertPool()
		if err == nil && !authorities.AppendCertsFromPEM(pem) {
			err = fmt.Errorf("%s has no certificate in PEM", file)
		}
		if err != nil {
			return nil, usageError{fmt.Errorf("--cacert: %w", err)}
		}
		c.Transport = api.NewTrustingTransport(authorities)
	}
	if r.tokenFile != "" {
		var err error
		if c.Token, err = api.ReadToken(r.tokenFile); err != nil {
			return nil, usageError{fmt.Errorf("--token-file: %w", err)}
		}
		return c, nil
	}
	data := flagOrEnv(r.data, "CLEAVE_DATA", "")
	if data == "" && api.IsLoopback(c.Addr) { // another machine does not get a token that was not meant for it
		data = "cleave-data"
	}
	c.Token, r.tokenErr = api.FindToken(c.Addr, data)
	return c, nil
}

// currentActor is the user of the command, for the audit log.
func currentActor() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

// runWithClient runs a conversation with the server. It ends with a signal.
func (r *remote) runWithClient(cmd *cobra.Command, with func(ctx context.Context, c *api.Client) error) error {
	c, err := r.newClient()
	if err != nil {
		return err
	}
	ctx, stop := signalContext(cmd)
	defer stop()
	return r.withExitCode(with(ctx, c))
}

// withExitCode gives an error its exit code, and says what helps.
func (r *remote) withExitCode(err error) error {
	var said *api.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return errInterrupted
	case errors.Is(err, api.ErrUnreachable):
		return exitError{exitUnreachable, fmt.Errorf("%w (name another with --addr or CLEAVE_ADDR)", err)}
	case errors.Is(err, api.ErrUntrusted):
		return fmt.Errorf("%w (name the certificate of the server or of its issuer with --cacert or %s)", err, api.EnvCACert)
	case errors.Is(err, api.ErrForeign), errors.Is(err, api.ErrBroken) && errors.Is(err, io.EOF):
		return fmt.Errorf("%w (--addr and CLEAVE_ADDR want the address for operators, which is not that of Redis clients: by default %s)", err, api.DefaultAddr)
	case errors.Is(err, api.ErrTimeout), errors.Is(err, &api.Error{Code: api.CodeTimeout}), errors.Is(err, context.DeadlineExceeded):
		return exitError{exitTimeout, err}
	case errors.Is(err, &api.Error{Code: api.CodeUnauthorized}):
		hint := "name its token with --token-file or " + api.EnvToken + ", or the directory of its data with --data"
		if r.tokenErr != nil {
			hint = r.tokenErr.Error()
		}
		return exitError{exitFailed, fmt.Errorf("%w (%s)", err, hint)}
	case errors.As(err, &said) && said.Code == api.CodeInvalid:
		return exitError{exitUsage, err}
	}
	return err
}

// newTerminal is the terminal of a command, if it has one.
func newTerminal(cmd *cobra.Command) *terminal.Terminal {
	return terminal.New(cmd.InOrStdin(), cmd.ErrOrStderr())
}

// askConfirmation asks, and is nil if the answer is yes. Without a terminal the command needs
// --yes, and says so.
func askConfirmation(ctx context.Context, t *terminal.Terminal, question string) error {
	yes, err := t.Confirm(ctx, question)
	switch {
	case err != nil && ctx.Err() != nil:
		return exitError{exitInterrupted, errors.New("interrupted: nothing was changed")}
	case errors.Is(err, terminal.ErrNoTerminal):
		return exitError{exitUsage, errors.New(question + " There is no terminal to ask at: say --yes")}
	case err != nil:
		return err
	case !yes:
		return exitError{exitFailed, errors.New("nothing was changed")}
	}
	return nil
}
