package txn

import (
	"encoding/binary"
	"fmt"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

// Decision is what became of a transaction, and who has yet to hear of it.
type Decision struct {
	ID         ID
	Outcome    Outcome
	DeadlineMS int64
	// Spans are those of the other parts whose owners have not confirmed yet
	// that they have resolved them.
	Spans []partition.Span
}

const decisionFormat = 1

// decisionTag is the first byte behind the table of a group's own state.
const decisionTag = 'd'

// decisionKey appends the store key of a decision.
func decisionKey(dst []byte, group partition.GroupID, id ID) []byte {
	dst = append(dst, byte(effect.State), decisionTag)
	return append(binary.BigEndian.AppendUint64(dst, uint64(group)), id[:]...)
}

// append appends the record of the decision; its key has the ID.
func (d *Decision) append(dst []byte) []byte {
	dst = append(dst, decisionFormat, byte(d.Outcome))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(d.DeadlineMS))
	dst = binary.AppendUvarint(dst, uint64(len(d.Spans)))
	for _, s := range d.Spans {
		dst = appendBytes(appendBytes(dst, s.Start), s.End)
	}
	return dst
}

// DecodeDecision takes the row of a decision apart.
func DecodeDecision(key, value []byte) (Decision, error) {
	d := Decision{}
	r := reader{rest: value}
	if n := len(key) - len(d.ID); n == 1+1+8 && key[0] == byte(effect.State) && key[1] == decisionTag {
		copy(d.ID[:], key[n:])
	} else {
		r.fail("its key is not one")
	}
	r.format(decisionFormat)
	d.Outcome, d.DeadlineMS = Outcome(r.byte()), int64(r.uint64())
	if r.err == nil && (!d.Outcome.final() || d.DeadlineMS < 0) {
		r.fail("it has no outcome or a bad time")
	}
	for n := r.count(); n > 0 && r.err == nil; n-- {
		d.Spans = append(d.Spans, partition.Span{Start: r.bytes(), End: r.bytes()})
	}
	if err := r.end(); err != nil {
		return Decision{}, fmt.Errorf("%w: a decision of %d and %d bytes: %w", ErrRecord, len(key), len(value), err)
	}
	return d, nil
}

// DecisionSpan returns the store keys of a group's decisions.
func DecisionSpan(group partition.GroupID) (from, to []byte) {
	const size = 1 + 1 + 8
	return decisionKey(nil, group, ID{})[:size], decisionKey(nil, group+1, ID{})[:size]
}

// LookUp returns the decision about a transaction that a group has recorded, if
// it has, in the state that r reads.
func LookUp(r command.Reader, group partition.GroupID, id ID) (Decision, bool, error) {
	key := decisionKey(nil, group, id)
	value, ok, err := r.Get(key, nil)
	if err != nil || !ok {
		return Decision{}, false, err
	}
	d, err := DecodeDecision(key, value)
	return d, err == nil, err
}

// Decisions visits the decisions that a group keeps, in the order of their IDs,
// until visit returns false: those with spans left have to be carried out.
func Decisions(r command.Reader, group partition.GroupID, visit func(Decision) bool) error {
	from, to := DecisionSpan(group)
	var bad error
	err := r.Scan(from, to, false, func(key, value []byte) bool {
		var d Decision
		if d, bad = DecodeDecision(key, value); bad != nil {
			return false
		}
		return visit(d)
	})
	if err == nil {
		err = bad
	}
	return err
}
