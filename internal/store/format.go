package store

import (
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

// formatVersion is the layout of the directory that this build reads and
// writes: DESIGN.md describes it. A change that an older build would misread
// takes the next number.
const formatVersion = 2

// ErrFormat means that the directory was written in a layout that this build
// does not know: open it with the version of Cleave that wrote it, or a newer one.
var ErrFormat = errors.New("store: unknown format version")

// ID tells one store from every other. It is in the FORMAT file and in every
// segment of the log, so that a segment that was copied in from elsewhere is
// not replayed.
type ID [16]byte

// String writes the id in hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

const formatTitle = "cleave store\n"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodeFormat writes the FORMAT file: text, because the first who looks at it
// may be a person with a broken disk.
func encodeFormat(id ID) []byte {
	body := fmt.Sprintf("%sformat %d\nid %s\n", formatTitle, formatVersion, id)
	return fmt.Appendf(nil, "%scheck %08x\n", body, crc32.Checksum([]byte(body), castagnoli))
}

// decodeFormat reads what encodeFormat wrote. The version is judged before the
// checksum: a newer version may protect the file in another way, and "newer"
// is what the reader must be told.
func decodeFormat(p []byte) (ID, error) {
	var id ID
	rest, ok := strings.CutPrefix(string(p), formatTitle)
	if !ok {
		return id, errors.New("does not begin as a FORMAT file does")
	}
	var version int
	if _, err := fmt.Sscanf(rest, "format %d\n", &version); err != nil {
		return id, fmt.Errorf("no version: %w", err)
	}
	if version != formatVersion {
		return id, fmt.Errorf("%w %d, this build knows %d: use a build that knows it", ErrFormat, version, formatVersion)
	}
	_, rest, _ = strings.Cut(rest, "\n")
	digits, rest, _ := strings.Cut(strings.TrimPrefix(rest, "id "), "\n")
	if n, err := hex.Decode(id[:], []byte(digits[:min(len(digits), 2*len(id))])); err != nil || n != len(id) {
		return id, errors.New("no id")
	}
	if string(encodeFormat(id)) != string(p) {
		return id, fmt.Errorf("checksum does not match (%q)", strings.TrimSpace(rest))
	}
	return id, nil
}
