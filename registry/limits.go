package registry

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Limits of the fields of a command.
const (
	MaxName   = 128      // bytes of the name of a lock
	MaxHolder = 128      // bytes of the name of a holder
	MaxKey    = 256      // bytes of a key
	MaxValue  = 64 << 10 // bytes of a value
	MaxNode   = 64       // bytes of a node ID
	maxShown  = 64       // bytes of a value in an error text
	maxTime   = MaxTTL   // longest duration in an entry
	MinTTL    = time.Second
	MaxTTL    = 24 * time.Hour
	MaxWait   = 5 * time.Minute
)

// Limits of the whole registry.
const (
	MaxLocks   = 10_000   // locks that are held
	MaxWaiters = 10_000   // waiters of all locks
	MaxKeys    = 65_536   // keys of the key-value store
	MaxBytes   = 16 << 20 // keys and values of the key-value store
	MaxWorkers = 1024     // worker IDs; each is below this number
	// MaxSnapshot is larger than the encoding of every State within the limits.
	MaxSnapshot = 40 << 20
)

// ErrCorrupt reports an entry or a snapshot that no program wrote.
var ErrCorrupt = errors.New("registry: corrupt entry")

// FieldError reports a field of a command that is out of bounds.
type FieldError struct {
	Field, Value string
	// Problem names the limit and the remedy.
	Problem string
}

// Error returns the field, its value and the problem.
func (e *FieldError) Error() string { return fmt.Sprintf("%s = %q %s", e.Field, e.Value, e.Problem) }

// fieldError returns a FieldError with a value that is cut to a readable length.
func fieldError(field, value, format string, args ...any) error {
	if len(value) > maxShown {
		value = value[:maxShown] + "…"
	}
	return &FieldError{Field: field, Value: value, Problem: fmt.Sprintf(format, args...)}
}

// Validate returns a FieldError if a field of the command is out of bounds.
func (c *Command) Validate() error {
	switch c.Kind {
	case Acquire, Renew, Release, Withdraw, Expire, ExpireWaiter:
		return c.validateLock()
	case Put, Delete:
		if len(c.Value) > MaxValue {
			return fieldError("value", strconv.Itoa(len(c.Value))+" bytes", "is too long: give up to %d bytes", MaxValue)
		}
		return ValidateKey("key", c.Name)
	case AssignWorker, ReleaseWorker:
		return validateText("node", c.Name, MaxNode)
	}
	return fmt.Errorf("%w: kind %d", ErrCorrupt, c.Kind)
}

// validateLock checks the fields of a command about a lock.
func (c *Command) validateLock() error {
	if err := ValidateLockName(c.Name); err != nil {
		return err
	}
	if c.Kind != Expire {
		if err := validateText("holder", c.Holder, MaxHolder); err != nil {
			return err
		}
	}
	keepsTTL := c.Kind == Renew && c.TTL == 0
	if (c.Kind == Acquire || c.Kind == Renew) && !keepsTTL && (c.TTL < MinTTL || c.TTL > MaxTTL) {
		return fieldError("ttl", c.TTL.String(), "is out of bounds: give a duration from %s to %s", MinTTL, MaxTTL)
	}
	if c.Wait < 0 || c.Wait > MaxWait {
		return fieldError("wait", c.Wait.String(), "is out of bounds: give a duration up to %s", MaxWait)
	}
	return nil
}

// ValidateLockName returns a FieldError for a name that no lock can have.
func ValidateLockName(name string) error {
	if err := validateText("name", name, MaxName); err != nil {
		return err
	}
	for i := range len(name) {
		if !isNameByte(name[i]) {
			return fieldError("name", name, "contains %q: use letters, digits, dot, dash, underscore and colon", name[i])
		}
	}
	if name == "." || name == ".." {
		return fieldError("name", name, "has no meaning in a URL: use another name")
	}
	return nil
}

// ValidateKey returns a FieldError for a key that the store cannot have. field is the name of the field. A key
// consists of segments separated by slashes.
func ValidateKey(field, key string) error {
	if err := validateText(field, key, MaxKey); err != nil {
		return err
	}
	start := 0
	for i := 0; i <= len(key); i++ {
		if i < len(key) && key[i] != '/' {
			if !isNameByte(key[i]) {
				return fieldError(field, key, "contains %q: use letters, digits, dot, dash, underscore, colon and slash", key[i])
			}
			continue
		}
		if segment := key[start:i]; segment == "" || segment == "." || segment == ".." {
			return fieldError(field, key, "has the segment %q between slashes: give names such as app/config", segment)
		}
		start = i + 1
	}
	return nil
}

// isNameByte reports whether names and segments of keys may contain the byte.
func isNameByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '.' || b == '-' || b == '_' || b == ':'
}

// validateText checks the length of a text, and that it is printable ASCII.
func validateText(field, text string, limit int) error {
	if text == "" || len(text) > limit {
		return fieldError(field, text, "has %d bytes: give 1 to %d", len(text), limit)
	}
	for i := range len(text) {
		if text[i] < '!' || text[i] > '~' {
			return fieldError(field, text, "contains %q: use printable ASCII without spaces", text[i])
		}
	}
	return nil
}
