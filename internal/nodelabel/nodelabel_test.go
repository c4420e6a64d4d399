package nodelabel_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"shardway/internal/nodelabel"
)

func TestRolesAreChecked(t *testing.T) {
	many := make([]string, nodelabel.MaxRoles+1)
	for i := range many {
		many[i] = "r" + strconv.Itoa(i)
	}
	tests := []struct {
		roles []string
		want  string // part of the error; empty means that the roles are valid
	}{
		{nil, ""},
		{[]string{"app", "Db-2.x_y", strings.Repeat("r", nodelabel.MaxNameBytes)}, ""},
		{many[1:], ""},
		{many, "17 roles"},
		{[]string{"app", "app"}, "twice"},
		{[]string{""}, `"" is not a role`},
		{[]string{"-app"}, "not a role"},
		{[]string{"a,b"}, "not a role"},
		{[]string{"a b"}, "not a role"},
		{[]string{"a\n"}, "not a role"},
		{[]string{"rôle"}, "not a role"},
		{[]string{strings.Repeat("r", nodelabel.MaxNameBytes+1)}, "not a role"},
	}
	for _, tt := range tests {
		err := nodelabel.CheckRoles(tt.roles)
		if tt.want == "" {
			if err != nil {
				t.Errorf("%q: %v", tt.roles, err)
			}
			if got := nodelabel.SplitRoles(nodelabel.JoinRoles(tt.roles)); !slices.Equal(got, slices.Sorted(slices.Values(tt.roles))) {
				t.Errorf("%q became %q", tt.roles, got)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want an error with %q", tt.roles, err, tt.want)
		}
	}
}

func TestMetadataIsChecked(t *testing.T) {
	many := make([]string, nodelabel.MaxEntries+1)
	for i := range many {
		many[i] = "k" + strconv.Itoa(i) + "=v"
	}
	tests := []struct {
		entries []string
		want    string // part of the error; empty means that the entries are valid
	}{
		{nil, ""},
		{[]string{"rack=r7", "empty=", "eq=a=b", "text=a b;~"}, ""},
		{many[1:], ""},
		{[]string{"k=" + strings.Repeat("v", nodelabel.MaxMetaBytes-2)}, ""},
		{[]string{"k=" + strings.Repeat("v", nodelabel.MaxMetaBytes-1)}, "257 bytes"},
		{many, "17 metadata entries"},
		{[]string{"k=1", "k=2"}, `"k" is there twice`},
		{[]string{"k"}, "write it like rack=r7"},
		{[]string{"=v"}, "write it like rack=r7"},
		{[]string{"a b=v"}, "write it like rack=r7"},
		{[]string{"k=a,b"}, "without commas"},
		{[]string{"k=a\nb"}, "printable"},
		{[]string{"k=\x7f"}, "printable"},
		{[]string{"k=ä"}, "printable"},
	}
	for _, tt := range tests {
		meta, err := nodelabel.ParseMeta(tt.entries)
		if tt.want == "" {
			if err != nil {
				t.Errorf("%q: %v", tt.entries, err)
			}
			if got := nodelabel.SplitMeta(meta.String()); !maps.Equal(got, meta) {
				t.Errorf("%q became %q", tt.entries, got)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want an error with %q", tt.entries, err, tt.want)
		}
	}
}

// FuzzSplit checks that the text of any member results in roles and metadata that a node could announce.
func FuzzSplit(f *testing.F) {
	for _, seed := range []string{"", "a,b", "a=b,c=d", "a,,b=,=", "a=\x00", strings.Repeat("a,", 300), strings.Repeat("k=v,", 60)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if roles := nodelabel.SplitRoles(text); nodelabel.CheckRoles(roles) != nil {
			t.Fatalf("roles %q", roles)
		}
		meta := nodelabel.SplitMeta(text)
		var entries []string
		for key, value := range meta {
			entries = append(entries, key+"="+value)
		}
		if again, err := nodelabel.ParseMeta(entries); err != nil || !maps.Equal(again, meta) {
			t.Fatalf("metadata %q: %v", meta, err)
		}
	})
}

func TestIDsAreChecked(t *testing.T) {
	for text, want := range map[string]bool{
		"a": true, "n-1.example_X": true, strings.Repeat("n", nodelabel.MaxIDBytes): true,
		"": false, strings.Repeat("n", nodelabel.MaxIDBytes+1): false, "-a": false, "a.": false, "a b": false, "a ": false, "a\n": false, "a\x00": false,
		"a\x1b[31m": false, "\u202ea": false, "\u0430": false, "\xff": false, "a/1": false, "announce:a": false,
	} {
		if got := nodelabel.IsID(text); got != want {
			t.Errorf("IsID(%q) = %v", text, got)
		}
	}
}

func TestVersionsAreChecked(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "0.1.0-dev+5 (x)": true, strings.Repeat("v", nodelabel.MaxVersionBytes): true,
		strings.Repeat("v", nodelabel.MaxVersionBytes+1): false, "1\x1b[2J": false, "1\n2": false, "\u202e1": false, "\xff": false,
	} {
		if got := nodelabel.IsVersion(text); got != want {
			t.Errorf("IsVersion(%q) = %v", text, got)
		}
	}
}
