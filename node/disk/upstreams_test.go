package disk_test

import (
	"slices"
	"testing"

	"shardway/node/disk"
)

func TestInstanceKeepsTheNumberOfItsAddress(t *testing.T) {
	path := t.TempDir()
	number := func(want []string, addresses ...string) {
		t.Helper()
		dir, err := disk.Open(path, "a")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = dir.Close() }()
		got, err := dir.NumberUpstreams(addresses, 4)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("addresses %q have numbers %q, want %q (%v)", addresses, got, want, err)
		}
	}
	number(nil)
	number([]string{"x"}, "x")
	number([]string{"y"}, "y") // one instance at another address
	number([]string{"y", "z"}, "z", "y")
	number([]string{"y", "z", "x"}, "x", "y", "z")
	number([]string{"", "z", ""}, "z")
	number([]string{"", "z", "", "w"}, "w", "z")
	number([]string{"", "z", "x", "w"}, "x", "w", "z")
	number([]string{"v", "z", "x", "w"}, "v", "x", "w", "z") // the number that has been unused for longest
	number([]string{"v", "", "x", "w"}, "v", "x", "w")
	dir, err := disk.Open(path, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	if _, err := dir.NumberUpstreams([]string{"1", "2", "3", "4", "5"}, 4); err == nil {
		t.Error("five instances are accepted")
	}
}
