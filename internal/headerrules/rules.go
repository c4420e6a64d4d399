package headerrules

import (
	"slices"
	"strconv"
	"strings"

	"shardway/internal/fieldname"
	"shardway/internal/valueerr"
)

// Field is a header field.
type Field struct{ Name, Value string }

// Rules changes the header fields of a message. It first removes the fields in Remove and Set, and then adds those
// in Set and Add. The zero value changes nothing.
type Rules struct {
	Set    []Field  // fields that replace all fields with the same name
	Add    []Field  // further fields
	Remove []string // names of fields
}

// Direction is the kind of the messages that Rules change.
type Direction uint8

// The directions.
const (
	Request  Direction = iota // to the app
	Response                  // from the app
)

// MaxSize is the maximum size of all fields of one Rules, in bytes.
const MaxSize = 8 << 10

// IsEmpty reports whether the rules change nothing.
func (r *Rules) IsEmpty() bool { return len(r.Set)+len(r.Add)+len(r.Remove) == 0 }

// Equal reports whether two Rules are the same.
func (r *Rules) Equal(other *Rules) bool {
	return slices.Equal(r.Set, other.Set) && slices.Equal(r.Add, other.Add) && slices.Equal(r.Remove, other.Remove)
}

// String returns the rules as text, for example "set Server: x; remove X-Debug".
func (r *Rules) String() string {
	var parts []string
	for _, name := range r.Remove {
		parts = append(parts, "remove "+name)
	}
	for _, field := range r.Set {
		parts = append(parts, "set "+field.Name+": "+field.Value)
	}
	for _, field := range r.Add {
		parts = append(parts, "add "+field.Name+": "+field.Value)
	}
	return strings.Join(parts, "; ")
}

// Check returns the first error in the rules, a *valueerr.Error whose Key is set, add or remove.
// For requests, keyFields contains the fields from which the key of a request may be read.
func (r *Rules) Check(direction Direction, keyFields []string) error {
	size := 0
	var changed []string
	for _, field := range r.Set {
		if slices.ContainsFunc(changed, func(other string) bool { return fieldname.Normalize(other) == fieldname.Normalize(field.Name) }) {
			return &valueerr.Error{Key: "set", Value: field.Name, Wrong: "it sets " + field.Name + " twice", Remedy: "keep one of them, or use add"}
		}
		changed = append(changed, field.Name)
		if err := checkField("set", field, direction, keyFields); err != nil {
			return err
		}
		size += len(field.Name) + len(field.Value)
	}
	for _, field := range r.Add {
		if err := checkField("add", field, direction, keyFields); err != nil {
			return err
		}
		size += len(field.Name) + len(field.Value)
	}
	for _, name := range r.Remove {
		if slices.ContainsFunc(changed, func(other string) bool { return fieldname.Normalize(other) == fieldname.Normalize(name) }) {
			return &valueerr.Error{Key: "remove", Value: name, Wrong: "set replaces " + name + " already", Remedy: "keep one of them"}
		}
		if err := checkName("remove", name, direction); err != nil {
			return err
		}
		size += len(name)
	}
	if size > MaxSize {
		return &valueerr.Error{Key: "set", Value: "…", Wrong: "the fields have " + strconv.Itoa(size) + " bytes, more than " + strconv.Itoa(MaxSize), Remedy: "use fewer or shorter fields"}
	}
	return nil
}

// checkField checks a field that a rule of the given kind adds.
func checkField(kind string, field Field, direction Direction, keyFields []string) error {
	if err := checkName(kind, field.Name, direction); err != nil {
		return err
	}
	isKeyField := slices.ContainsFunc(keyFields, func(name string) bool { return fieldname.Normalize(name) == fieldname.Normalize(field.Name) })
	if direction == Request && isKeyField {
		return &valueerr.Error{
			Key: kind, Value: field.Name, Wrong: "a key source reads " + field.Name + ", so the app would read another key than Shardway",
			Remedy: "use another field, or let the app read Shardway-Key",
		}
	}
	if !IsFieldValue(field.Value) {
		return &valueerr.Error{
			Key: kind, Value: field.Value, Wrong: "not the value of a header field (RFC 9110, section 5.5)",
			Remedy: "use visible ASCII, spaces and tabs, without a space at an end",
		}
	}
	return nil
}

// checkName checks the name of a field that a rule of the given kind changes.
func checkName(kind, name string, direction Direction) error {
	if !fieldname.IsToken(name) {
		return &valueerr.Error{Key: kind, Value: name, Wrong: "not the name of a header field (RFC 9110, section 5.1)", Remedy: "use letters, digits and hyphens, such as X-Frame-Options"}
	}
	if isReserved(fieldname.Normalize(name), direction) {
		return &valueerr.Error{Key: kind, Value: name, Wrong: "HTTP or Shardway itself needs the field " + name, Remedy: "remove the rule"}
	}
	return nil
}

// isReserved reports whether rules must not change a field, because it frames the message, controls the connection,
// or belongs to Shardway. normal is the normalized name, because apps may take a spelling such as Content_Length
// for the field.
func isReserved(normal string, direction Direction) bool {
	if strings.HasPrefix(normal, "shardway-") || strings.HasPrefix(normal, "sec-websocket-") {
		return true
	}
	reserved := []string{
		"connection", "content-length", "date", "expect", "host", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "via",
	}
	if direction == Request {
		reserved = append(reserved, "forwarded", "last-event-id", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-request-id")
	}
	return slices.Contains(reserved, normal)
}

// IsFieldValue reports whether text is a field value of visible ASCII, spaces and tabs.
func IsFieldValue(text string) bool {
	if strings.Trim(text, " \t") != text {
		return false
	}
	return !strings.ContainsFunc(text, func(char rune) bool { return char != '\t' && (char < ' ' || char > '~') })
}
