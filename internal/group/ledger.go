package group

import (
	"encoding/binary"
	"fmt"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

// ledger is what a group remembers about itself over a restart. It is one row,
// written in every batch.
type ledger struct {
	// seq is the sequence of the last batch.
	seq uint64
	// versionCeiling is above every version that was given out. A batch gives
	// out versions only below one that was synced before, so that a batch which
	// a crash takes back does not get its versions used again.
	versionCeiling uint64
	// clockCeiling is at or above every time that was given out.
	clockCeiling int64
	// mixed tells that there may be rows that a plain Set must not overwrite
	// blindly: collections and keys that expire.
	mixed bool
}

const (
	ledgerFormat = 1
	ledgerSize   = 2 + 3*8
)

// ledgerKey is the store key of a group's ledger.
func ledgerKey(id partition.GroupID) []byte {
	return binary.BigEndian.AppendUint64([]byte{byte(effect.State), 'g'}, uint64(id))
}

func (l *ledger) append(dst []byte) []byte {
	mixed := byte(0)
	if l.mixed {
		mixed = 1
	}
	dst = append(dst, ledgerFormat, mixed)
	dst = binary.LittleEndian.AppendUint64(dst, l.seq)
	dst = binary.LittleEndian.AppendUint64(dst, l.versionCeiling)
	return binary.LittleEndian.AppendUint64(dst, uint64(l.clockCeiling))
}

func decodeLedger(b []byte) (ledger, error) {
	if len(b) != ledgerSize || b[0] != ledgerFormat || b[1] > 1 {
		return ledger{}, fmt.Errorf("group: the ledger is not of this version: %x: use the version that wrote it", b)
	}
	return ledger{
		mixed:          b[1] == 1,
		seq:            binary.LittleEndian.Uint64(b[2:]),
		versionCeiling: binary.LittleEndian.Uint64(b[10:]),
		clockCeiling:   int64(binary.LittleEndian.Uint64(b[18:])),
	}, nil
}
