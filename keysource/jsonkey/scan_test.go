package jsonkey_test

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"shardway/internal/raceflag"
	"shardway/keysource/jsonkey"
)

func TestKeysAreFoundInDocuments(t *testing.T) {
	for _, tc := range []struct{ document, pointer, key string }{
		{`{"id":"alice"}`, "/id", "alice"},
		{" {\r\n\t\"id\" : \"alice\" } \n", "/id", "alice"},
		{`{"i\u0064":"\u0061li\u0063e"}`, "/id", "alice"},
		{`{"a":{"b":[{"c":"x"},{"c":"y"}]}}`, "/a/b/1/c", "y"},
		{`{"a":{"b":[1,2]}}`, "/a/b/-", ""},
		{`{"a":{"b":[1,2]}}`, "/a/b/01", ""},
		{`{"a":{"b":[1,2]}}`, "/a/b/2", ""},
		{`{"a/b":"x","m~n":"y","":"z","a":{"":"w"}}`, "/a~1b", "x"},
		{`{"a/b":"x","m~n":"y","":"z","a":{"":"w"}}`, "/m~0n", "y"},
		{`{"a/b":"x","m~n":"y","":"z","a":{"":"w"}}`, "/", "z"},
		{`{"a/b":"x","m~n":"y","":"z","a":{"":"w"}}`, "/a/", "w"},
		{`{"~1":"x","/":"y"}`, "/~01", "x"},
		{`{"id":7}`, "/id", "7"},
		{`{"id":-12.5}`, "/id", "-12.5"},
		{`{"id":0}`, "/id", "0"},
		{`{"id":9007199254740991}`, "/id", "9007199254740991"},
		{`{"id":true}`, "/id", "true"},
		{`{"id":false}`, "/id", "false"},
		{`{"id":"\ud83d\ude00\n\/"}`, "/id", "😀\n/"},
		{`{"id":""}`, "/id", ""},
		{`{"id":null}`, "/id", ""},
		{`{"id":{"x":1}}`, "/id", ""},
		{`{"id":[1]}`, "/id", ""},
		{`{"id":"alice"}`, "/id/x", ""},
		{`{"other":"alice","n":1e400,"m":1.0}`, "/id", ""},
		{`{}`, "/id", ""},
		{`"alice"`, "/id", ""},
		{`12`, "/id", ""},
		{`{"x":{"id":"bob"},"id":"alice","y":[{"id":"carol","ID":1}]}`, "/id", "alice"},
		{`[{"id":"a"},{"id":"\u0061","x":[]}]`, "/id", "a"},
		{`[[{"id":"a"}],[{"id":"a"}]]`, "/0/id", "a"},
		{strings.Repeat(`{"a":`, 63) + `{"id":"x"}` + strings.Repeat("}", 63), strings.Repeat("/a", 63) + "/id", "x"},
	} {
		key, err := jsonkey.Find(nil, []byte(tc.document), tc.pointer)
		if err != nil || string(key) != tc.key || (tc.key == "") != (key == nil) {
			t.Errorf("%s of %s = %q, %v, want %q", tc.pointer, tc.document, key, err, tc.key)
		}
	}
}

// Each of these documents has a different key for some parser, or is not JSON for some.
func TestAmbiguousDocumentsAreRejected(t *testing.T) {
	for _, document := range []string{
		"", " ", "{", `{"id":"a"`, `{"id":"a"}}`, `{"id":"a"} {}`, `{"id":"a"},`, `{"id":"a",}`, `{,"id":"a"}`, `{"id":"a" "x":1}`, `{"id" "a"}`, `{id:"a"}`, `{'id':'a'}`,
		`{"id":"a"}//`, `{"id":"a"/**/}`, `{"id":NaN}`, `{"id":01}`, `{"id":+1}`, `{"id":.5}`, `{"id":1.}`, `{"id":1e}`, `{"id":0x1}`, `{"id":-}`, `{"id":True}`, `{"id":tru}`, `{"id":nul}`,
		`{"id":"a","id":"a"}`, `{"id":"a","id":"b"}`, `{"id":"a","i\u0064":"b"}`, `{"id":"a","x":{"y":1,"y":2}}`, `{"id":"a","x":[{"\u0079":1,"y":2}]}`,
		`{"ID":"a"}`, `{"id":"a","Id":"b"}`, "{\"id\":\"a\",\"\u0130d\":1,\"iD\":2}",
		"\ufeff{\"id\":\"a\"}", "{\"id\":\"\xff\"}", "{\"id\":\"a\",\"x\":\"\xc0\xaf\"}", "{\"id\":\"\xed\xa0\x80\"}", "\x00{\x00}", "{\x00\"\x00", "\xff\xfe{\x00",
		`{"id":"\ud800"}`, `{"id":"\udc00\ud800"}`, `{"id":"a","x":"\ud800\u0061"}`, `{"id":"a","\ud800x":1}`, `{"id":"\u00"}`, `{"id":"\u00g0"}`, `{"id":"\x41"}`, `{"id":"a\`,
		`{"id":"a\u0000b"}`, `{"id":"a","id\u0000":"b"}`, "{\"id\":\"a\nb\"}", "{\"id\":\"a\x00b\"}", "{\"id\":\"a\\n\nb\"}", "{\"id\":\v\"a\"}",
		`{"id":1.0}`, `{"id":1e3}`, `{"id":1E0}`, `{"id":-0}`, `{"id":1.50}`, `{"id":9007199254740992}`, `{"id":9007199254740993}`, `{"id":1e400}`, `{"id":0.00001}`, `{"id":0.1000000000000000055}`,
		`[]`, `[{"id":"a"},{"id":"b"}]`, `[{"id":"a"},{}]`, `[{},{"id":"a"}]`, `[{}]`, `["id"]`, `[{"id":"a"}`, `[{"id":"a"},]`, `[{"id":"a"}]]`, `[{"id":"a"},{"id":"a","x":{"y":1,"y":1}}]`,
		strings.Repeat("[", 65) + strings.Repeat("]", 65), `{"id":"a","x":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, strings.Repeat("[", 1<<20), strings.Repeat(`{"a":`, 1<<18),
	} {
		if key, err := jsonkey.Find(nil, []byte(document), "/id"); err == nil || key != nil {
			t.Errorf("%.80q is %q", document, key)
		}
	}
}

func TestPointersAreChecked(t *testing.T) {
	for pointer, isValid := range map[string]bool{
		"/id": true, "/": true, "/a/b~0c~1/0": true, "//": true, "/é": true,
		"": false, "id": false, "#/id": false, "/a~": false, "/a~2": false, "/~/b": false,
	} {
		if err := jsonkey.CheckPointer(pointer); (err == nil) != isValid {
			t.Errorf("%q: %v", pointer, err)
		}
	}
}

// FuzzFind compares Find with parsers that use the first or the last member of a name, that ignore
// case, and that convert numbers to floating-point numbers: if Find accepts a document, all of them
// read the same key.
func FuzzFind(f *testing.F) {
	for _, document := range []string{
		`{"id":"alice"}`, `{"a":{"b":[1,{"id":true}]}}`, `[{"id":1},{"id":"1"}]`, `{"i\u0064":"\ud83d\ude00"}`, `{"id":1,"ID":2}`, `{"id":1.50}`, `{"id":"a\u0000"}`, "\ufeff{}", `{"x":{"y":[]},"id":null}`,
	} {
		f.Add([]byte(document), "/id")
		f.Add([]byte(document), "/a/b/1/id")
	}
	f.Fuzz(func(t *testing.T, document []byte, pointer string) {
		if jsonkey.CheckPointer(pointer) != nil {
			return
		}
		before := bytes.Clone(document)
		key, err := jsonkey.Find(make([]byte, 0, 8), document, pointer)
		if !bytes.Equal(before, document) {
			t.Fatal("the document has changed")
		}
		if err != nil {
			if key != nil {
				t.Fatalf("%q and %v", key, err)
			}
			return
		}
		if !json.Valid(document) {
			t.Fatalf("%q is taken", document)
		}
		for name, read := range map[string]func(*json.Decoder) any{"last": readLast, "first": readFirst} {
			for _, keepsNumbers := range []bool{false, true} {
				decoder := json.NewDecoder(bytes.NewReader(document))
				if keepsNumbers {
					decoder.UseNumber()
				}
				root := read(decoder)
				elements, isBatch := root.([]any)
				if !isBatch {
					elements = []any{root}
				}
				for _, element := range elements {
					if got := lookUp(element, pointer); got != string(key) {
						t.Fatalf("%q of %q is %q, and %q for the parser %s", pointer, document, key, got, name)
					}
				}
			}
		}
	})
}

// readLast decodes a value. The last member of a name counts.
func readLast(decoder *json.Decoder) any {
	var value any
	_ = decoder.Decode(&value)
	return value
}

// readFirst decodes a value. The first member of a name counts.
func readFirst(decoder *json.Decoder) any {
	token, err := decoder.Token()
	if err != nil {
		return nil
	}
	switch token {
	case json.Delim('{'):
		object := map[string]any{}
		for decoder.More() {
			member, _ := decoder.Token()
			value := readFirst(decoder)
			text, _ := member.(string)
			if _, isDuplicate := object[text]; !isDuplicate {
				object[text] = value
			}
		}
		_, _ = decoder.Token()
		return object
	case json.Delim('['):
		array := []any{}
		for decoder.More() {
			array = append(array, readFirst(decoder))
		}
		_, _ = decoder.Token()
		return array
	}
	return token
}

// lookUp returns the key at a pointer as an app prints it. Names of members may differ in case.
func lookUp(value any, pointer string) string {
	for _, name := range strings.Split(pointer, "/")[1:] {
		name = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
		switch parent := value.(type) {
		case map[string]any:
			value = nil
			for member, child := range parent {
				if strings.EqualFold(member, name) {
					value = child
				}
			}
		case []any:
			value = nil
			if index, err := strconv.Atoi(name); err == nil && strconv.Itoa(index) == name && index >= 0 && index < len(parent) {
				value = parent[index]
			}
		default:
			return ""
		}
	}
	switch value := value.(type) {
	case string:
		return value
	case bool:
		return strconv.FormatBool(value)
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64)
	case json.Number:
		return value.String()
	}
	return ""
}

// manyNames returns a document whose object has n members with different names.
func manyNames(n int) []byte {
	document := []byte(`{"id":"alice"`)
	for i := range n {
		document = append(document, `,"n`...)
		document = strconv.AppendInt(document, int64(i), 36)
		document = append(document, `":0`...)
	}
	return append(document, '}')
}

// bigDocuments returns documents of about 8 MiB.
func bigDocuments() map[string][]byte {
	const size = 8 << 20
	batch, objects := []byte{'['}, []byte(`{"id":"alice","list":[`)
	for len(batch) < size {
		batch = append(batch, `{"id":"alice"},`...)
		objects = append(objects, `{"name":"x","size":1},`...)
	}
	return map[string][]byte{
		"names":   manyNames(size / 10),
		"objects": append(objects, `{}]}`...),
		"batch":   append(batch[:len(batch)-1], ']'),
		"string":  []byte(`{"id":"alice","text":"` + strings.Repeat(`\n`, size/2) + `"}`),
		"name":    []byte(`{"id":"alice","` + strings.Repeat(`\n`, size/2) + `":0}`),
	}
}

// The memory for a document is a small multiple of the largest object.
func TestMemoryOfScanIsBounded(t *testing.T) {
	for name, document := range bigDocuments() {
		limit := map[string]uint64{"names": 24 << 20, "name": 9 << 20}[name]
		if limit == 0 {
			limit = 8 << 10
		}
		if raceflag.Detector { // the compiler then copies byte slices that it converts to strings
			limit *= 2
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		key, err := jsonkey.Find(nil, document, "/id")
		runtime.ReadMemStats(&after)
		if err != nil || string(key) != "alice" {
			t.Fatalf("%s: %q, %v", name, key, err)
		}
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > limit {
			t.Errorf("%s: %d bytes for a document of %d bytes, want up to %d", name, allocated, len(document), limit)
		}
	}
}

// Each pair of equal names is found, wherever it is in a large object.
func TestDuplicateIsFoundAmongManyNames(t *testing.T) {
	const count = 1000
	document := manyNames(count)
	for i := range count {
		duplicate := "n" + strconv.FormatInt(int64(i), 36)
		for _, name := range []string{duplicate, `\u006e` + duplicate[1:]} {
			text := string(document[:len(document)-1]) + `,"` + name + `":{"` + name + `":{}}}`
			if key, err := jsonkey.Find(nil, []byte(text), "/id"); err == nil {
				t.Fatalf("%q twice: %q", name, key)
			}
		}
	}
	if key, err := jsonkey.Find(nil, document, "/id"); err != nil || string(key) != "alice" {
		t.Errorf("%q, %v", key, err)
	}
}

func BenchmarkFind(b *testing.B) {
	documents := bigDocuments()
	documents["small"] = []byte(`{"jsonrpc":"2.0","id":1,"method":"call","params":{"name":"x","arguments":{"a":1,"b":[1,2]}},"tenant":"acme"}`)
	for _, name := range []string{"small", "names", "objects", "batch", "string", "name"} {
		document, pointer := documents[name], "/id"
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(document)))
			b.ReportAllocs()
			dst := make([]byte, 0, 64)
			for b.Loop() {
				if _, err := jsonkey.Find(dst, document, pointer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
