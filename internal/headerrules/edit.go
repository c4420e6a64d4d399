package headerrules

import (
	"slices"

	"shardway/internal/fieldname"
)

// Edit is the effect of one or more Rules. nil changes nothing.
type Edit struct {
	removed  []string // normal names of the fields to remove
	addition []byte   // complete header lines to add
}

// Compile returns the combined effect of rules that apply in order, or nil if they change nothing. The rules must
// have passed Check. A rule for X-User also removes spellings such as X_User, because an app may not distinguish
// them.
func Compile(levels ...*Rules) *Edit {
	edit := &Edit{}
	var added []Field
	for _, rules := range levels {
		for _, name := range rules.names() {
			added = slices.DeleteFunc(added, func(field Field) bool { return fieldname.HasNormal(field.Name, name) })
			if !slices.Contains(edit.removed, name) {
				edit.removed = append(edit.removed, name)
			}
		}
		added = append(append(added, rules.Set...), rules.Add...)
	}
	for _, field := range added {
		edit.addition = append(edit.addition, field.Name+": "+field.Value+"\r\n"...)
	}
	if len(edit.removed) == 0 && len(edit.addition) == 0 {
		return nil
	}
	return edit
}

// names returns the normal names of the fields that the rules remove or replace.
func (r *Rules) names() []string {
	var names []string
	for _, name := range r.Remove {
		names = append(names, fieldname.Normalize(name))
	}
	for _, field := range r.Set {
		names = append(names, fieldname.Normalize(field.Name))
	}
	return names
}

// RemovesAny reports whether the edit may remove fields.
func (e *Edit) RemovesAny() bool { return e != nil && len(e.removed) > 0 }

// Removed returns the names of the fields that the edit removes, in lowercase. The caller must not change them.
func (e *Edit) Removed() []string { return e.removed }

// Removes reports whether the edit removes fields with this name.
func (e *Edit) Removes(name []byte) bool {
	for _, removed := range e.removed {
		if fieldname.HasNormal(name, removed) {
			return true
		}
	}
	return false
}

// Lines returns the complete header lines to add.
func (e *Edit) Lines() []byte {
	if e == nil {
		return nil
	}
	return e.addition
}
