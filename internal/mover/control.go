package mover

import "fmt"

// Cancel takes a job back. Past its decision it goes forward: the error is
// ErrTooLate, and nothing changes. A job that is taken back already stays so.
func Cancel(j Job, nowMS int64) (Job, []Effect, error) {
	switch {
	case j.Phase.Final():
		return j, nil, fmt.Errorf("%w: it is %v", ErrEnded, j.Phase)
	case j.Phase.decided(), j.Phase == Removing:
		return j, nil, fmt.Errorf("%w: it is %v", ErrTooLate, j.Phase)
	case j.Undo:
		return j, nil, nil
	}
	j.Why = "cancelled"
	j.undo(nowMS)
	return j, Resume(j), nil
}

// Pause lets a job begin nothing more that carries or removes rows. One that has
// frozen a range goes on until it is thawed or handed over.
func Pause(j Job, nowMS int64) (Job, error) {
	if j.Phase.Final() {
		return j, fmt.Errorf("%w: it is %v", ErrEnded, j.Phase)
	}
	if !j.Paused {
		j.Paused = true
		j.touch(nowMS)
	}
	return j, nil
}

// Unpause lets a paused job go on.
func Unpause(j Job, nowMS int64) (Job, []Effect, error) {
	if j.Phase.Final() {
		return j, nil, fmt.Errorf("%w: it is %v", ErrEnded, j.Phase)
	}
	if !j.Paused {
		return j, nil, nil
	}
	j.Paused = false
	j.touch(nowMS)
	return j, Resume(j), nil
}

// minThrottle is the least that a job may be throttled to: a GiB takes four and a
// half hours then.
const minThrottle = 64 << 10

func checkThrottle(bytesPerSecond uint64) error {
	if bytesPerSecond > 0 && bytesPerSecond < minThrottle {
		return fmt.Errorf("%w: BytesPerSecond is %d: use %d or more", ErrRequest, bytesPerSecond, minThrottle)
	}
	return nil
}

// Throttle bounds how many bytes a second a job copies, from its next round on. 0
// lifts the bound.
func Throttle(j Job, bytesPerSecond uint64, nowMS int64) (Job, error) {
	if j.Phase.Final() {
		return j, fmt.Errorf("%w: it is %v", ErrEnded, j.Phase)
	}
	if err := checkThrottle(bytesPerSecond); err != nil {
		return j, fmt.Errorf("%w, or pause the job", err)
	}
	j.Throttle, j.NotBeforeMS = bytesPerSecond, 0
	j.touch(nowMS)
	return j, nil
}
