package linkedlist

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// entry is a value with its own element.
type entry struct{ element Element[*entry] }

// A list contains the same values as a slice after the same random operations.
func TestListMatchesSlice(t *testing.T) {
	var list List[*entry]
	var want []*entry
	for range 2_000 {
		e, i := new(entry), rand.IntN(len(want)+1)
		removes := rand.IntN(2) == 0
		switch {
		case i == len(want):
			list.PushBack(&e.element, e)
			want = append(want, e)
		case removes:
			want[i].element.Remove()
			want[i].element.Remove() // a second call has no effect
			want = slices.Delete(want, i, i+1)
		default:
			list.InsertBefore(&want[i].element, &e.element, e)
			want = slices.Insert(want, i, e)
		}
		checkList(t, &list, want)
	}
}

// checkList fails the test if the list differs from want.
func checkList(t *testing.T, list *List[*entry], want []*entry) {
	t.Helper()
	if got := slices.Collect(list.All()); !slices.Equal(got, want) || list.Len() != len(want) {
		t.Fatalf("the list has %d values %v, want %v", list.Len(), got, want)
	}
	var first *entry
	if len(want) > 0 {
		first = want[0]
	}
	if list.First() != first {
		t.Fatal("First is not the first value")
	}
	for i, e := range want {
		var next *entry
		if i+1 < len(want) {
			next = want[i+1]
		}
		if e.element.Next() != next || !e.element.InList() {
			t.Fatalf("the neighbor after value %d is wrong", i)
		}
	}
}

// A loop may remove each value that it receives.
func TestAllAllowsRemoval(t *testing.T) {
	var list List[*entry]
	for range 3 {
		e := new(entry)
		list.PushBack(&e.element, e)
	}
	visited := 0
	for e := range list.All() {
		e.element.Remove()
		visited++
	}
	if visited != 3 || list.Len() != 0 || list.First() != nil {
		t.Errorf("visited %d values, %d are left, want 3 and 0", visited, list.Len())
	}
}
