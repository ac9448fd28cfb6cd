package wal

// Rotate ends the chunk in use if there is something in it, so that it is applied soon,
// and not when others have filled it. When it returns the chunk is sealed.
func (l *Log) Rotate() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if err := l.dead(); err != nil {
			return err
		}
		switch {
		case l.rotating:
			l.room.Wait()
		case l.full && l.reserved:
			return l.lack
		case l.cur == nil, l.next == blockBytes && l.open == nil:
			return nil
		default:
			l.rotating = true
			err := l.rotate(false, 0)
			l.rotating = false
			l.room.Broadcast()
			return err
		}
	}
}
