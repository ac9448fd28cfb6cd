package server

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"

	"github.com/cleavekv/cleave/internal/server/redis"
)

// cursorCipher seal the places at which CLEAVE.RANGE and CLEAVE.INDEX SCAN go on. A place is a key or an indexed
// value of the last row that was looked at, and the client may not be allowed to read that row.
//
// A cursor is encrypted and authenticated, and bound to what it was made for: command, keyspace, index and
// direction. It is not bound to a user: it reveals nothing, and a user that goes on with it sees only what that user may
// read. The key is kept beside the data, so a cursor outlives a restart; if the key is lost or damaged, another one takes its
// place, and older cursors are refused.
type cursorCipher struct{ aead cipher.AEAD }

const (
	// cursorKeyFile has the key, in the directory of the data, and cursorKeyBytes is how long it is.
	cursorKeyFile  = "cursor-key"
	cursorKeyBytes = 32
	// cursorPadBytes is what the length of a place is rounded up to: the length of a key would reveal something of it.
	cursorPadBytes = 64
)

const errCursor = redis.Error("ERR invalid cursor: it is none, is of another command, keyspace, index or direction, or the server has another key since: begin again with CURSOR 0")

// init makes the cursors of a server.
func (c *cursorCipher) init(s *Server) {
	key := make([]byte, cursorKeyBytes)
	_, _ = rand.Read(key) // never fails
	if s.opts.Dir != "" {
		key = loadCursorKey(s, filepath.Join(s.opts.Dir, cursorKeyFile), key)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("serve: " + err.Error()) // the length is right
	}
	if c.aead, err = cipher.NewGCMWithRandomNonce(block); err != nil {
		panic("serve: " + err.Error())
	}
}

// loadCursorKey returns the key that is kept in a file, or keeps another one there.
func loadCursorKey(s *Server, path string, fresh []byte) []byte {
	text, err := os.ReadFile(path)
	if err == nil {
		if key, bad := hex.DecodeString(strings.TrimSpace(string(text))); bad == nil && len(key) == cursorKeyBytes {
			return key
		}
		s.opts.Log.Warn("the key of cursors is damaged: another one takes its place, and older cursors are refused", "file", path)
	}
	temporary := path + ".new"
	_ = os.Remove(temporary)
	err = os.WriteFile(temporary, []byte(hex.EncodeToString(fresh)+"\n"), 0o600)
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		s.opts.Log.Warn("the key of cursors cannot be kept: cursors are refused after a restart", "error", err)
	}
	return fresh
}

// seal returns the cursor of a place, which is some bytes that are not empty.
func (c *cursorCipher) seal(place []byte, of string) string {
	plain := append(append(make([]byte, 0, len(place)+cursorPadBytes), place...), 1)
	for len(plain)%cursorPadBytes != 0 {
		plain = append(plain, 0)
	}
	return base64.RawURLEncoding.EncodeToString(c.aead.Seal(nil, nil, plain, []byte(of)))
}

// open is the opposite of seal. "0" is the beginning: nil.
func (c *cursorCipher) open(word []byte, of string) ([]byte, error) {
	if string(word) == "0" {
		return nil, nil
	}
	sealed, err := base64.RawURLEncoding.DecodeString(string(word))
	if err != nil {
		return nil, errCursor
	}
	plain, err := c.aead.Open(nil, nil, sealed, []byte(of))
	if err != nil {
		return nil, errCursor
	}
	return plain[:strings.LastIndexByte(string(plain), 1)], nil
}

// cursorBinding is what a cursor is bound to. No name has a zero byte.
func cursorBinding(command, keyspace, index string, reverse bool) string {
	direction := "forward"
	if reverse {
		direction = "reverse"
	}
	return strings.Join([]string{command, keyspace, index, direction}, "\x00")
}
