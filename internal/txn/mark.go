package txn

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

// Mark says that a transaction is finished with what was locked at a position,
// until no message of it can do harm any more.
type Mark struct {
	Outcome    Outcome
	DeadlineMS int64
}

const (
	markFormat = 1
	markSize   = 1 + 1 + 8
)

// markKey appends the store key of the mark at a position.
func markKey(dst []byte, at partition.Position, id ID) []byte {
	dst = effect.Marks.AppendKey(dst, at)
	return append(append(dst, pad[:]...), id[:]...)
}

func (m Mark) append(dst []byte) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, markFormat, byte(m.Outcome)), uint64(m.DeadlineMS))
}

// DecodeMark takes a row of the table of marks apart.
func DecodeMark(value []byte) (Mark, error) {
	r := reader{rest: value}
	r.format(markFormat)
	m := Mark{Outcome: Outcome(r.byte()), DeadlineMS: int64(r.uint64())}
	if r.err == nil && (!m.Outcome.final() || m.DeadlineMS < 0) {
		r.fail("it has no outcome or a bad time")
	}
	if err := r.end(); err != nil {
		return Mark{}, fmt.Errorf("%w: a mark of %d bytes: %w", ErrRecord, len(value), err)
	}
	return m, nil
}

// loadMark returns the mark at a position, if there is one.
func loadMark(e *command.Env, at partition.Position, id ID) (Mark, bool, error) {
	value, ok, err := e.Get(markKey(nil, at, id), nil)
	if err != nil || !ok {
		return Mark{}, false, err
	}
	m, err := DecodeMark(value)
	return m, err == nil, err
}

func clonePosition(p partition.Position) partition.Position { return bytes.Clone(p) }
