package caller

import (
	"context"
	"errors"
	"testing"
)

func TestACallerLeavesWhenItIsSoAndNoticesThatItWaits(t *testing.T) {
	so := false
	ctx := WithCancelWhen(t.Context(), func() bool { return so })
	if ctx.Err() != nil {
		t.Error("it has left before")
	}
	if so = true; !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("it has left: %v", ctx.Err())
	}
	waits := 0
	ctx, leave := context.WithCancel(t.Context())
	ctx = WithOnWait(ctx, func() { waits++ })
	leave()
	if <-ctx.Done(); waits != 1 || ctx.Err() == nil {
		t.Errorf("it has waited %d times, %v", waits, ctx.Err())
	}
}
