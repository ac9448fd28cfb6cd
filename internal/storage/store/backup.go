package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/storage/wal"
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
	positions, err := BackupAll(ctx, []*Store{s}, []string{dir})
	if err != nil {
		return 0, err
	}
	return positions[0], nil
}

// BackupAll is Backup of several stores, each to its directory: the copies are of one
// moment. If it fails, all that it wrote is removed.
func BackupAll(ctx context.Context, stores []*Store, dirs []string) (at []wal.Position, err error) {
	copies := make([]*backup, 0, len(stores))
	defer func() {
		for _, b := range copies {
			err = errors.Join(err, b.endBackup(err != nil))
		}
	}()
	for i, s := range stores {
		b, err := s.beginBackup(dirs[i])
		if err != nil {
			return nil, fmt.Errorf("backup to %s: %w", dirs[i], err)
		}
		copies = append(copies, b)
	}
	at = visiblePositions(stores)
	for i, b := range copies {
		if err := b.finishCopy(ctx, at[i]); err != nil {
			return nil, fmt.Errorf("backup to %s: %w", dirs[i], err)
		}
	}
	return at, nil
}

// visiblePositions returns up to where the logs of stores are visible at one moment.
func visiblePositions(stores []*Store) []wal.Position {
	defer stopPublishing(stores)()
	list := make([]wal.Position, len(stores))
	for i, s := range stores {
		list[i] = s.Position()
	}
	return list
}

// backup is a copy that is being made.
type backup struct {
	store      *Store
	dir, data  string
	releaseLog func() // lets the log be recycled
}

// beginBackup copies what is durable in Pebble. The log has the rest, and keeps it
// until end.
func (s *Store) beginBackup(dir string) (b *backup, err error) {
	if err := s.beginCall(); err != nil {
		return nil, err
	}
	fsys := s.dir.fs // files are the owner's alone there too
	b = &backup{store: s, dir: dir, data: fsys.PathJoin(dir, dataDir), releaseLog: func() {}}
	names, err := fsys.List(dir)
	if err == nil && len(names) > 0 {
		err = fmt.Errorf("%w: name a new or an empty directory", fs.ErrExist)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.endCall()
		return nil, err
	}
	if err = makeDir(fsys, dir); err == nil {
		b.releaseLog = s.applier.retainLog()
		err = errors.Join(readError(s.db.Checkpoint(b.data)), fsys.takeCheckpointError(fsys.PathDir(b.data), b.data))
	}
	if err != nil {
		return nil, errors.Join(err, b.endBackup(true))
	}
	return b, nil
}

// finishCopy brings the copy to a position, and makes it a store.
func (b *backup) finishCopy(ctx context.Context, pos wal.Position) error {
	if err := b.store.applyLogTo(ctx, b.data, pos); err != nil {
		return err
	}
	fsys := b.store.dir.fs
	if err := writeDurable(fsys, fsys.PathJoin(b.dir, backupName), nil); err != nil {
		return err
	}
	// FORMAT comes last: without it Open refuses the directory.
	return errors.Join(syncDir(fsys, b.dir), writeFormat(fsys, b.dir, b.store.dir.id))
}

// endBackup gives back what the backup holds, and removes it if it failed.
func (b *backup) endBackup(failed bool) (err error) {
	b.releaseLog()
	if failed {
		err = b.store.dir.fs.RemoveAll(b.dir)
	}
	b.store.endCall()
	return err
}

// applyLogTo brings what the checkpoint in data lacks into it, from the log, up to a
// position.
func (s *Store) applyLogTo(ctx context.Context, data string, until wal.Position) (err error) {
	wake := make(notifier, 1)
	h := &health{wake: wake.notify}
	o := s.opts
	o.BlockCacheBytes = minCacheBytes
	db, err := openPebble(data, engineOptions(&o, newGuardedFS(o.FS, h, data), h, func() {}), h)
	if err != nil {
		return err
	}
	defer func() {
		if closing := errors.Join(h.err(), db.Close()); err == nil {
			err = closing
		}
	}()
	pos, err := readAppliedPosition(db, false)
	if err != nil {
		return err
	}
	c := copier{ctx: ctx, db: db, pos: pos, until: until, batch: db.NewBatch()}
	if _, err = s.readFeed(pos, c.addEntry); err != nil && !errors.Is(err, errReachedEnd) {
		return errors.Join(err, c.batch.Close())
	}
	c.pos = until
	if err := c.flush(); err != nil {
		return err
	}
	return flushEngine(ctx, db, h, wake)
}

// errReachedEnd ends a feed.
var errReachedEnd = errors.New("store: far enough")

// copier applies the feed to a Pebble that has no other user.
type copier struct {
	ctx        context.Context
	db         *pebble.DB
	batch      *pebble.Batch
	pos, until wal.Position
	key        []byte
}

// copyBatchBytes is how much of the log is copied in one batch.
const copyBatchBytes = 4 << 20

func (c *copier) addEntry(e FeedEntry) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if e.Pos > c.until {
		return errReachedEnd
	}
	for _, op := range e.Batch.All() {
		if op.Key[0] == byte(effect.Events) {
			continue // for readers of the log
		}
		c.key = appendEngineKey(c.key[:0], op.Key)
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
	if c.batch.Len() < copyBatchBytes {
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

// Restore copies a backup that was never opened to o.Dir, which must not exist
// or be empty, and reads every row of the copy, so that damage is found now and
// not when it hurts. The backup stays as it is and can be restored again. It
// returns the digest of all rows. If it fails, the copy is removed.
//
// Opening a backup where it lies works as well: it becomes that store then.
func Restore(ctx context.Context, backup string, o Options) (Digest, error) {
	o, err := o.withDefaults()
	if err != nil {
		return Digest{}, err
	}
	names, err := o.FS.List(backup)
	if err != nil {
		return Digest{}, fmt.Errorf("restore %s: %w", backup, err)
	}
	if !slices.Contains(names, formatName) || !slices.Contains(names, backupName) {
		return Digest{}, fmt.Errorf("restore %s: %w: it has no %s and %s: name the directory of a backup that was never opened",
			backup, ErrForeign, formatName, backupName)
	}
	if names, err := o.FS.List(o.Dir); err == nil && len(names) > 0 {
		return Digest{}, fmt.Errorf("restore to %s: %w: name a new or an empty directory", o.Dir, fs.ErrExist)
	}
	d, err := copyAndVerify(ctx, backup, o)
	if err != nil {
		err = errors.Join(fmt.Errorf("restore %s to %s: %w", backup, o.Dir, err), o.FS.RemoveAll(o.Dir))
	}
	return d, err
}

func copyAndVerify(ctx context.Context, backup string, o Options) (Digest, error) {
	if err := copyTree(ctx, newGuardedFS(o.FS, &health{wake: func() {}}, ""), backup, o.Dir); err != nil {
		return Digest{}, err
	}
	s, err := Open(o)
	if err != nil {
		return Digest{}, err
	}
	snap, err := s.Snapshot()
	if err != nil {
		return Digest{}, errors.Join(err, s.Close())
	}
	d, err := snap.Digest(nil, nil)
	return d, errors.Join(err, snap.Close(), s.Close())
}

// copyTree copies what a backup consists of, FORMAT last.
func copyTree(ctx context.Context, fsys vfs.FS, from, to string) error {
	if err := makeDir(fsys, fsys.PathJoin(to, dataDir)); err != nil {
		return err
	}
	files, err := fsys.List(fsys.PathJoin(from, dataDir))
	if err != nil {
		return err
	}
	for i := range files {
		files[i] = fsys.PathJoin(dataDir, files[i])
	}
	for _, name := range append(files, backupName, formatName) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if name == formatName {
			// All else has to be durable before the directory counts as a store.
			if err := errors.Join(syncDir(fsys, fsys.PathJoin(to, dataDir)), syncDir(fsys, to)); err != nil {
				return err
			}
		}
		if err := vfs.Copy(fsys, fsys.PathJoin(from, name), fsys.PathJoin(to, name)); err != nil {
			return err
		}
	}
	return syncDir(fsys, to)
}
