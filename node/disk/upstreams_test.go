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
		got, _, err := dir.NumberUpstreams(addresses, 4)
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
	free := func(mask uint32) {
		t.Helper()
		dir, err := disk.Open(path, "a")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = dir.Close() }()
		if err := dir.StoreFreeUpstreams(mask); err != nil {
			t.Fatal(err)
		}
		if got, err := dir.FreeUpstreams(); got != mask || err != nil {
			t.Errorf("free numbers %b, want %b (%v)", got, mask, err)
		}
	}
	refuse := func(addresses ...string) {
		t.Helper()
		dir, err := disk.Open(path, "a")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = dir.Close() }()
		if got, _, err := dir.NumberUpstreams(addresses, 4); err == nil {
			t.Errorf("addresses %q have numbers %q while removed numbers may own shards", addresses, got)
		}
	}
	refuse("v", "x", "w", "z")
	number([]string{"", "z", "x", "w"}, "x", "w", "z") // an error stores nothing
	free(1)
	number([]string{"v", "z", "x", "w"}, "v", "x", "w", "z")
	number([]string{"v", "", "x", "w"}, "v", "x", "w")
	refuse("u", "x", "w") // the number of v may still own shards, and so may number 2
	free(1 << 1)
	number([]string{"", "u", "x", "w"}, "u", "x", "w") // number 2 is free, and number 1 is not
	refuse("t", "u", "x", "w")                         // number 2 was free for one address
	free(1)
	number([]string{"v", "u", "x", "w"}, "v", "u", "x", "w")
	number([]string{"", "u", "x", "w"}, "u", "x", "w")
	refuse("t", "u", "x", "w") // number 1 was used again after it had been free
	dir, err := disk.Open(path, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	if _, _, err := dir.NumberUpstreams([]string{"1", "2", "3", "4", "5"}, 4); err == nil {
		t.Error("five instances are accepted")
	}
}

func TestReplacedUpstreamIsReported(t *testing.T) {
	dir, err := disk.Open(t.TempDir(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	for i, step := range []struct {
		addresses []string
		want      string
	}{
		{[]string{"x"}, ""},
		{[]string{"x"}, ""},
		{[]string{"y"}, "x"},
		{nil, ""},
		{[]string{"z"}, "y"},
		{[]string{"w", "z"}, ""},
		{[]string{"w"}, ""}, // the shards of z move to w, with another epoch
		{[]string{"v"}, ""},
	} {
		if _, replaced, err := dir.NumberUpstreams(step.addresses, 4); replaced != step.want || err != nil {
			t.Errorf("step %d: %v replaces %q, want %q (%v)", i, step.addresses, replaced, step.want, err)
		}
	}
}
