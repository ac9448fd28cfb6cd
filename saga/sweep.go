package saga

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Sweep removes sagas that ended longer ago than Options.Retention, and returns how
// many. A runner that has resumed does that by itself from time to time.
//
// If a definition has a Forget, it comes first. Sagas whose definition had one that
// this program does not know are kept. A runner sweeps once at a time: a second call
// waits for the first.
func (r *Runner) Sweep(ctx context.Context) (n int, err error) {
	// Else one that is slow would forget what is noted of a later saga, with an id that
	// another has removed.
	select {
	case r.sweeps <- struct{}{}:
		defer func() { <-r.sweeps }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	const page = 256
	before := r.nowMS() - r.opts.Retention.Milliseconds()
	var errs []error
	for after := (Record{}); ; {
		records, err := r.journal.Before(ctx, before, after, page)
		if err != nil {
			return n, errors.Join(append(errs, err)...)
		}
		for _, rec := range records {
			after = rec
			switch removed, err := r.remove(ctx, rec); {
			case err != nil && len(errs) < 10: // they are much alike
				errs = append(errs, fmt.Errorf("remove saga %s %q: %w", rec.Definition, rec.ID, err))
			case removed:
				n++
			}
		}
		if len(records) < page {
			return n, errors.Join(errs...)
		}
	}
}

func (r *Runner) remove(ctx context.Context, rec Record) (bool, error) {
	if rec.Forget {
		k := r.kind(rec.Definition)
		if k == nil || k.forget == nil {
			return false, nil
		}
		if err := k.forget(ctx, rec.ID); err != nil {
			return false, err
		}
	}
	err := r.journal.Remove(ctx, rec)
	return err == nil, err
}

// sweepOn sweeps from time to time, until the runner is closed.
func (r *Runner) sweepOn() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrClosed
	}
	if r.sweeping {
		return nil
	}
	r.sweeping = true
	const shortest, longest = time.Second, 10 * time.Minute
	period := max(shortest, min(longest, r.opts.Retention/20))
	r.wg.Go(func() {
		ticker := time.NewTicker(period)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				// What is not removed now is removed later: an error is no news.
				_, _ = r.Sweep(r.ctx)
			case <-r.ctx.Done():
				return
			}
		}
	})
	return nil
}
