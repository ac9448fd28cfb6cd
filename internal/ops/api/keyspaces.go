package api

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Keyspace is a named collection of keys.
type Keyspace struct {
	Name string `json:"name"`
	// Kind is hash or range.
	Kind   string `json:"kind"`
	Slots  int    `json:"slots,omitempty"`
	Layout string `json:"layout,omitempty"`
	// Default is the one that cannot be dropped; Index is set if it has the entries of
	// an index.
	Default bool `json:"default,omitempty"`
	Index   bool `json:"index,omitempty"`
	// Critical reports whether heat on it is never accepted.
	Critical bool `json:"critical,omitempty"`
	Shards   int  `json:"shards"`
	Indexes  int  `json:"indexes"`
	// Rows and Bytes are estimates, as those of a [Shard] are.
	Rows  uint64 `json:"rows"`
	Bytes uint64 `json:"bytes"`
	// CacheHitRatio is the share of looks at rows that memory could answer.
	CacheHitRatio float64 `json:"cache_hit_ratio"`
}

// CreateKeyspace makes a keyspace.
type CreateKeyspace struct {
	Name string `json:"name"`
	// Kind is hash or range. Default hash.
	Kind string `json:"kind,omitempty"`
	// Slots of a hash keyspace: a power of two. Default 16384, which is also the most.
	Slots  int    `json:"slots,omitempty"`
	Layout string `json:"layout,omitempty"`
}

// DropKeyspace removes a keyspace with all its keys and indexes.
type DropKeyspace struct {
	Name string `json:"name"`
}

// Index finds the rows of a keyspace by what they hold.
type Index struct {
	Keyspace string `json:"keyspace"`
	Name     string `json:"name"`
	// Mode is transactional or asynchronous.
	Mode     string   `json:"mode"`
	Unique   bool     `json:"unique"`
	Columns  string   `json:"columns,omitempty"`
	Stored   []string `json:"stored,omitempty"`
	Function string   `json:"function,omitempty"`
	Version  string   `json:"version,omitempty"`
	// Ready reports whether all rows have their entries, Built how many were looked at for that.
	Ready bool   `json:"ready"`
	Built uint64 `json:"built"`
	// Error is why it stands still.
	Error string `json:"error,omitempty"`
	// BehindSeconds and BehindBytes are how late an asynchronous one is at most.
	BehindSeconds float64 `json:"behind_seconds"`
	BehindBytes   int64   `json:"behind_bytes"`
	// Refused counts rows without an entry because of a mistake in them.
	Refused uint64 `json:"refused"`
	Rebuilt uint64 `json:"rebuilt"`
}

// DropIndex removes an index.
type DropIndex struct {
	Keyspace string `json:"keyspace"`
	Name     string `json:"name"`
}

// Saga is work of several steps, as its journal has it. Its value is left out.
type Saga struct {
	ID         string `json:"id"`
	Definition string `json:"definition"`
	// State is running, compensating, completed or compensated.
	State string `json:"state"`
	// Stuck is why it stands still: "undo fails" or "code is missing".
	Stuck string `json:"stuck,omitempty"`
	// Steps are the names of all, and At is which of them is done or undone next.
	Steps []string `json:"steps"`
	At    int      `json:"at"`
	// Attempts is how often that step has failed in a row, Failure its last error.
	Attempts int    `json:"attempts"`
	Failure  string `json:"failure,omitempty"`
	// Cause is why it turned round.
	Cause   string     `json:"cause,omitempty"`
	Started time.Time  `json:"started"`
	Ended   *time.Time `json:"ended,omitempty"`
}

// Explanation is where a key, a slot or a shard is, and why.
type Explanation struct {
	Keyspace string `json:"keyspace"`
	Kind     string `json:"kind"`
	// Key and HashTag are of a key: the tag is the part of it that decides the slot.
	Key     *Key `json:"key,omitempty"`
	HashTag *Key `json:"hash_tag,omitempty"`
	Slot    *int `json:"slot,omitempty"`
	// Exists reports whether there is such a key now.
	Exists *bool `json:"exists,omitempty"`
	// Type is string or hash, Bytes the length of a string and Fields how many a hash has, and ExpiresSeconds how long a key
	// that expires has to live.
	Type           string   `json:"type,omitempty"`
	Bytes          *uint64  `json:"bytes,omitempty"`
	Fields         *uint64  `json:"fields,omitempty"`
	ExpiresSeconds *float64 `json:"expires_seconds,omitempty"`
	// Parts is the key as the layout of its keyspace has it, or else the values of one that is an encoded tuple.
	Parts []string `json:"parts,omitempty"`
	// Heat is what is asked of the key, if it is among those that are asked for most.
	Heat *HotKey `json:"heat,omitempty"`
	// Shard is where it is, and its group and store.
	Shard Shard `json:"shard"`
	// Why is how one follows from the other, in sentences.
	Why []string `json:"why"`
	// Class is that of the shard, even if nothing is found about it; none without heat.
	Class string `json:"class,omitempty"`
	// Hot is what was found about the shard, if it needs attention: its class, the evidence and the remedy.
	Hot *Hot `json:"hot,omitempty"`
	// Decisions are the last ones about the shard, the newest first.
	Decisions []Decision `json:"decisions,omitempty"`
}

// Key is the bytes of a key. As text, in JSON and in queries, printable ASCII stands for
// itself, a backslash is written twice, and every other byte is \xNN: text that no
// terminal or page takes for more than text, and that means one key. Read, it may also
// have other UTF-8 as it is.
type Key []byte

// ParseKey reads the text of a key.
func ParseKey(text string) (Key, error) {
	k := make(Key, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			k = append(k, text[i])
			continue
		}
		rest := text[i+1:]
		switch {
		case strings.HasPrefix(rest, `\`):
			k, i = append(k, '\\'), i+1
		case strings.HasPrefix(rest, "x") && len(rest) >= 3:
			b, err := strconv.ParseUint(rest[1:3], 16, 8)
			if err != nil {
				return nil, keyError(text, i)
			}
			k, i = append(k, byte(b)), i+3
		default:
			return nil, keyError(text, i)
		}
	}
	return k, nil
}

func keyError(text string, at int) error {
	return fmt.Errorf(`key %q: at byte %d: a backslash is written \\, and a byte \x and two hexadecimal digits`, text, at)
}

// String is the text of the key.
func (k Key) String() string {
	var b strings.Builder
	for _, c := range k {
		switch {
		case c == '\\':
			b.WriteString(`\\`)
		case c >= ' ' && c <= '~':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String()
}

// MarshalText is String.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText is ParseKey.
func (k *Key) UnmarshalText(text []byte) (err error) {
	*k, err = ParseKey(string(text))
	return err
}

// KeyOrNil returns a key for a field that may have none: nil for nil.
func KeyOrNil(b []byte) *Key {
	if b == nil {
		return nil
	}
	k := Key(b)
	return &k
}
