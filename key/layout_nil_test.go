package key

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
)

// TestMethodsOfANilLayoutFailAndDoNotPanic calls every exported method with zero
// arguments, so one that is added later is held to it too.
func TestMethodsOfANilLayoutFailAndDoNotPanic(t *testing.T) {
	nilLayout := reflect.ValueOf((*Layout)(nil))
	zero := reflect.ValueOf(new(Layout))
	for i := range nilLayout.NumMethod() {
		name := nilLayout.Type().Method(i).Name
		method := nilLayout.Method(i)
		var args []reflect.Value
		for j := range method.Type().NumIn() {
			in := method.Type().In(j)
			switch {
			case method.Type().IsVariadic() && j == method.Type().NumIn()-1:
			case in == reflect.TypeFor[*Values]():
				args = append(args, reflect.ValueOf(new(Values)))
			default:
				args = append(args, reflect.Zero(in))
			}
		}
		out := method.Call(args)
		if last := out[len(out)-1]; last.Type() == reflect.TypeFor[error]() {
			if err, _ := last.Interface().(error); !errors.Is(err, ErrLayout) {
				t.Errorf("%s: error %v, want %v", name, err, ErrLayout)
			}
			continue
		}
		if got, want := fmt.Sprint(out[0]), fmt.Sprint(zero.Method(i).Call(args)[0]); got != want {
			t.Errorf("%s of a nil Layout is %s, of the zero one %s", name, got, want)
		}
	}
}
