package agent

import (
	"testing"

	"shardway/shardmap"
)

func TestAppWatch(t *testing.T) {
	tests := []struct {
		name  string
		known string // instance stored by an earlier process of the node
		do    func(w *AppWatch)
		want  shardmap.Epoch
	}{
		{"nothing is known", "", func(w *AppWatch) { w.Applied(5, false); w.Applied(7, true); w.Checked(w.BeginAttempt(7), "") }, 0},
		{"a first instance says nothing", "", func(w *AppWatch) { w.Applied(7, true); w.Checked(w.BeginAttempt(7), "x") }, 0},
		{"the same instance says nothing", "x", func(w *AppWatch) {
			w.Applied(7, true)
			w.Checked(w.BeginAttempt(7), "x")
			w.Checked(w.BeginAttempt(9), "x")
		}, 0},
		{"refused while it serves", "", func(w *AppWatch) {
			w.Applied(7, true)
			w.Refused(w.BeginAttempt(9))
			w.Connected()
			w.Applied(12, true)
		}, 9},
		{"refused while it serves, and no request since", "", func(w *AppWatch) {
			w.Applied(7, true)
			w.Refused(w.BeginAttempt(9))
			w.Applied(12, true)
			w.Connected()
			w.Applied(14, true)
		}, 12},
		{"refused again", "", func(w *AppWatch) {
			w.Applied(7, true)
			w.Refused(w.BeginAttempt(9))
			w.Refused(w.BeginAttempt(11))
			w.Refused(w.BeginAttempt(10))
		}, 11},
		{"refused while it serves, and told after a request", "", func(w *AppWatch) {
			w.Applied(7, true)
			a := w.BeginAttempt(9)
			w.Connected()
			w.Refused(a)
			w.Applied(12, true)
		}, 9},
		{"refused before the log was read", "", func(w *AppWatch) {
			w.Refused(w.BeginAttempt(0))
			w.Applied(5, false)
			w.Applied(7, true)
			w.Connected()
			w.Applied(9, true)
		}, 7},
		{"refused before the log was read, without a lease yet", "", func(w *AppWatch) { w.Refused(w.BeginAttempt(0)); w.Applied(5, false) }, 5},
		{"another instance while it serves", "x", func(w *AppWatch) {
			w.Applied(7, true)
			w.Checked(w.BeginAttempt(8), "x")
			w.Checked(w.BeginAttempt(10), "y")
		}, 8},
		{"another instance than the process before knew", "x", func(w *AppWatch) {
			w.Applied(5, false)
			w.Checked(w.BeginAttempt(5), "y")
			w.Applied(7, true)
			w.Connected()
			w.Applied(9, true)
		}, 7},
		{"another instance, met late", "x", func(w *AppWatch) { w.Applied(7, true); w.Applied(9, true); w.Checked(w.BeginAttempt(9), "y") }, 7},
		{"refused, and the same instance after it", "", func(w *AppWatch) {
			w.Applied(7, true)
			w.Checked(w.BeginAttempt(8), "x")
			w.Refused(w.BeginAttempt(9))
			w.Applied(10, true)
			w.Checked(w.BeginAttempt(10), "x")
			w.Checked(w.BeginAttempt(12), "y")
		}, 10},
		{"refused, and another instance after it", "", func(w *AppWatch) {
			w.Applied(7, true)
			w.Checked(w.BeginAttempt(8), "x")
			w.Refused(w.BeginAttempt(9))
			w.Applied(11, true)
			w.Checked(w.BeginAttempt(11), "y")
			w.Applied(12, true)
			w.Connected()
			w.Applied(14, true)
		}, 12},
		{"refused, and another instance that has had requests", "", func(w *AppWatch) {
			w.Applied(7, true)
			w.Checked(w.BeginAttempt(8), "x")
			w.Refused(w.BeginAttempt(9))
			w.Connected()
			w.Applied(11, true)
			w.Checked(w.BeginAttempt(11), "y")
			w.Applied(12, true)
		}, 9},
		{"refused during a check that met the app before", "", func(w *AppWatch) {
			w.Applied(7, true)
			w.Checked(w.BeginAttempt(8), "x")
			a := w.BeginAttempt(8)
			w.Refused(w.BeginAttempt(9))
			w.Checked(a, "x")
			w.Checked(w.BeginAttempt(9), "y")
		}, 9},
		{"refused by an app that an earlier process of the node knew", "x", func(w *AppWatch) {
			w.Refused(w.BeginAttempt(0))
			w.Applied(7, true)
			w.Checked(w.BeginAttempt(7), "x")
			w.Applied(9, true)
		}, 0},
		{"no name for a while", "x", func(w *AppWatch) {
			w.Applied(7, true)
			w.Checked(w.BeginAttempt(8), "x")
			w.Checked(w.BeginAttempt(9), "")
			w.Checked(w.BeginAttempt(10), "x")
		}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := NewAppWatch(tt.known)
			if tt.known == "" {
				w.Checked(w.BeginAttempt(0), "")
			}
			if tt.do(w); w.StartedAfter() != tt.want {
				t.Errorf("Since() = %d, want %d", w.StartedAfter(), tt.want)
			}
		})
	}
	w := NewAppWatch("")
	w.Refused(w.BeginAttempt(0))
	w.Applied(5, false)
	if w.StartedAfter() != 0 {
		t.Error("a refused connection counts before it is known whether the app has a name")
	}
	if w.Checked(w.BeginAttempt(5), ""); w.StartedAfter() != 5 {
		t.Errorf("Since() = %d for an app without a name that was refused, want 5", w.StartedAfter())
	}
	w = NewAppWatch("")
	w.Refused(w.BeginAttempt(0))
	w.Applied(5, false)
	if w.Checked(w.BeginAttempt(5), "x"); w.StartedAfter() != 0 {
		t.Errorf("Since() = %d for an app with a name that nobody knew before, want 0", w.StartedAfter())
	}
	w = NewAppWatch("x")
	if w.Checked(w.BeginAttempt(1), "x") || !w.Checked(w.BeginAttempt(1), "y") || w.Checked(w.BeginAttempt(1), "y") || w.Checked(w.BeginAttempt(1), "") {
		t.Error("Checked does not report just a new instance to be stored")
	}
}
