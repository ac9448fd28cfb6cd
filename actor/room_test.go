package actor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/cleavekv/cleave/actor"
)

// The instants of these tests are too short to be met by chance: they are
// brought about by hand.

func TestRoomThatComesFreeJustBeforeASenderStandsInLineIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := actor.EnterTooLate(second(t)); err != nil {
			t.Error(err)
		}
	})
}

func TestRoomGrantedToASenderThatJustLeftGoesToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		renounce, entered := actor.GrantAndQueue(second(t))
		synctest.Wait()
		if err := renounce(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := <-entered; err != nil {
			t.Errorf("the next in line: %v", err)
		}
	})
}

func TestASenderThatLeavesAClosedRoomGivesNothingBack(t *testing.T) {
	if depth, err := actor.RenounceClosed(); depth != 0 || !errors.Is(err, actor.ErrStopped) {
		t.Errorf("depth %d: %v", depth, err)
	}
}

func TestAMessageThatMeetsAClosedActorGivesItsRoomBack(t *testing.T) {
	bothModes(t, func(t *testing.T, mode actor.Mode) {
		a := newWorker(t, actor.Options{Mode: mode, Capacity: 2})
		stopAndRead(t, a)
		actor.OpenGate(a) // as it was when the sender looked
		for range 3 {
			_, err1 := a.Call(t.Context(), job{})
			err2 := a.Do(t.Context(), func(*diary) { t.Error("done") })
			err3 := a.PostBatch(t.Context(), make([]job, 2))
			for _, err := range []error{err1, err2, err3} {
				if !errors.Is(err, actor.ErrStopped) {
					t.Error(err)
				}
			}
		}
		if st := a.Stats(); st.Depth != 0 || st.Accepted != 0 || st.Refused != 9 {
			t.Errorf("%+v", st)
		}
	})
}
