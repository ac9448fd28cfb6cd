package conn

import (
	"context"
	"log/slog"
	"time"

	"github.com/cleavekv/cleave/internal/ops/oplog"
)

// Log logs what an operator should know about clients. They can cause it as often as
// they like, so it is bounded by kind: logBurst lines in logWindow, and the rest is counted.
type Log struct {
	*slog.Logger
	limiter *oplog.Limiter
	// unbounded is the log without the bounds.
	unbounded *slog.Logger
}

const (
	logBurst  = 5
	logWindow = 10 * time.Second
)

func newLog(log *slog.Logger) *Log {
	limit := oplog.NewLimiter(log.Handler(), logBurst, logWindow)
	return &Log{slog.New(limit), limit, log}
}

// LogRefused logs a connection that is not served. The reason is a constant.
func (e *Log) LogRefused(reason, from string) {
	e.Warn("client refused", "reason", reason, "addr", from)
}

// LogClosed logs a connection that the server closes. The reason is a constant.
func (e *Log) LogClosed(c *Conn, reason string, more ...any) {
	e.Warn("client closed", append([]any{"reason", reason, "id", c.ID, "addr", c.RemoteAddr, "user", c.Status.LoadInfo().User}, more...)...)
}

// LogConnection logs that a client has connected or left, at the verbose level.
func (e *Log) LogConnection(message string, c *Conn) {
	if e.Enabled(context.Background(), oplog.LevelVerbose) { // most often it is not
		e.unbounded.Log(context.Background(), oplog.LevelVerbose, message, "id", c.ID, "addr", c.RemoteAddr)
	}
}

// Close ends what counts the lines that were left out.
func (e *Log) Close() { e.limiter.Close() }
