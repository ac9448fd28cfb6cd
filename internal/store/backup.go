package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/wal"
)

// Backup writes a copy of the store to dir, which must not exist or be empty,
// while the store works. The copy is everything that was committed up to one
// position, which is returned: not before the position of the log when Backup
// began. It is a directory that [Open] opens; it then becomes a store of its
// own, with its own id and a log that goes on from that position. If Backup
// fails, what it wrote is removed; what a crash leaves of it Open refuses.
//
// Tables are hard links where the file system can, so that a backup to the same
// disk takes little time and room; copy it elsewhere to survive that disk. The
// log is not recycled meanwhile.
func (s *Store) Backup(ctx context.Context, dir string) (wal.Position, error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	fsys := s.dir.fs // files are the owner's alone there too
	names, err := fsys.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("backup to %s: %w", dir, err)
	}
	if len(names) > 0 {
		return 0, fmt.Errorf("backup to %s: %w: name a new or an empty directory", dir, fs.ErrExist)
	}
	pos, err := s.backup(ctx, fsys, dir)
	if err != nil {
		return 0, errors.Join(fmt.Errorf("backup to %s: %w", dir, err), fsys.RemoveAll(dir))
	}
	return pos, nil
}

func (s *Store) backup(ctx context.Context, fsys vfs.FS, dir string) (wal.Position, error) {
	if err := makeDir(fsys, dir); err != nil {
		return 0, err
	}
	// The checkpoint has what is durable in Pebble; the log has the rest, and
	// must keep it until it was read.
	defer s.applier.hold()()
	data := fsys.PathJoin(dir, dataDir)
	if err := s.db.Checkpoint(data); err != nil {
		return 0, readError(err)
	}
	pos, err := s.catchUp(ctx, data)
	if err != nil {
		return 0, err
	}
	if err := writeDurable(fsys, fsys.PathJoin(dir, backupName), nil); err != nil {
		return 0, err
	}
	// FORMAT comes last: without it Open refuses the directory.
	return pos, errors.Join(syncDir(fsys, dir), writeFormat(fsys, dir, s.dir.id))
}

// catchUp brings what the checkpoint in data lacks into it, from the log, up to
// what is committed now.
func (s *Store) catchUp(ctx context.Context, data string) (pos wal.Position, err error) {
	wake := make(signal, 1)
	h := &health{wake: wake.send}
	o := s.opts
	o.BlockCacheBytes = minCacheBytes
	db, err := openPebble(data, engineOptions(&o, newGuard(o.FS, h), h, func() {}), h)
	if err != nil {
		return 0, err
	}
	defer func() {
		if closing := errors.Join(h.err(), db.Close()); err == nil {
			err = closing
		}
	}()
	if pos, err = position(db, false); err != nil {
		return 0, err
	}
	c := copier{ctx: ctx, db: db, pos: pos, batch: db.NewBatch()}
	if pos, err = s.feed(pos, c.add); err != nil {
		return 0, errors.Join(err, c.batch.Close())
	}
	c.pos = pos
	if err := c.flush(); err != nil {
		return 0, err
	}
	return pos, flushAll(ctx, db, h, wake)
}

// copier applies the feed to a Pebble that nobody else uses.
type copier struct {
	ctx   context.Context
	db    *pebble.DB
	batch *pebble.Batch
	pos   wal.Position
	key   []byte
}

// copyBytes is how much of the log is copied in one batch.
const copyBytes = 4 << 20

func (c *copier) add(e Committed) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	for _, op := range e.Batch.All() {
		c.key = appendKey(c.key[:0], op.Key)
		var err error
		if op.Delete {
			err = c.batch.Delete(c.key, nil)
		} else {
			err = c.batch.Set(c.key, op.Value, nil)
		}
		if err != nil {
			return err
		}
	}
	if c.batch.Len() < copyBytes {
		return nil
	}
	return c.flush()
}

// flush applies what was gathered. The position may be behind the batch for a
// while: the directory is no store before all of it is there.
func (c *copier) flush() error {
	var pos [8]byte
	binary.BigEndian.PutUint64(pos[:], uint64(c.pos))
	err := c.batch.Set(appliedKey, pos[:], nil)
	if err == nil {
		err = c.db.Apply(c.batch, pebble.NoSync)
	}
	c.batch = c.db.NewBatch()
	return err
}
