package mux

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Who does not wait at a lane is told, once, as soon as a read would not: whatever the reason.
func TestWhoDoesNotWaitIsToldOnce(t *testing.T) {
	for how, f := range map[string]func(r *raw, l *Lane){
		"bytes":    func(r *raw, l *Lane) { r.says(kindData, l.id, []byte("x")); r.says(kindData, l.id, []byte("y")) },
		"the end":  func(r *raw, l *Lane) { r.says(kindEnd, l.id, nil) },
		"a close":  func(r *raw, l *Lane) { r.says(kindClose, l.id, nil) },
		"a reset":  func(r *raw, l *Lane) { r.says(kindReset, l.id, nil) },
		"failure":  func(r *raw, _ *Lane) { r.Fail(errors.New("cut")) },
		"its own":  func(_ *raw, l *Lane) { _ = l.Close() },
		"a limit":  func(_ *raw, l *Lane) { _ = l.SetReadDeadline(time.Now().Add(-time.Second)) },
		"its time": func(_ *raw, l *Lane) { _ = l.SetReadDeadline(time.Now().Add(time.Second)); time.Sleep(time.Minute) },
	} {
		t.Run(how, func(t *testing.T) {
			withRaw(t, true, func(r *raw) {
				r.hears()
				r.says(kindOpen, 1, nil)
				l := <-r.given
				told := 0
				if !l.Ready(func() { told++ }) || told != 0 {
					t.Fatalf("it is ready, though nothing has come; told %d times", told)
				}
				f(r, l)
				if synctest.Wait(); told != 1 {
					t.Errorf("told %d times, want once", told)
				}
				if l.Ready(func() { told++ }) || told != 1 {
					t.Errorf("it is not ready, though a read does not wait; told %d times", told)
				}
			})
		})
	}
}
