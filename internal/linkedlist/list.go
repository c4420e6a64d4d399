// Package linkedlist is a doubly linked list of typed values. The links are fields of the values, so
// that adding a value allocates nothing, and a value can leave from the middle in constant time.
package linkedlist

import "iter"

// List contains values in the order in which they were added. The zero value is an empty list. A list
// must not be copied while it contains values.
type List[T any] struct {
	first, last *Element[T]
	length      int
}

// Element links a value into a list. It is usually a field of the value. The zero value is in no
// list. An element must not be copied while it is in a list.
type Element[T any] struct {
	value      T
	list       *List[T] // nil means that the element is in no list
	prev, next *Element[T]
}

// Len returns the number of values.
func (l *List[T]) Len() int { return l.length }

// First returns the first value. It returns the zero value of T if the list is empty.
func (l *List[T]) First() T { return l.first.valueOrZero() }

// All returns the values in order. The loop body may remove the value that it was given.
func (l *List[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for element := l.first; element != nil; {
			next := element.next
			if !yield(element.value) {
				return
			}
			element = next
		}
	}
}

// PushBack adds value at the end of the list. element must be in no list.
func (l *List[T]) PushBack(element *Element[T], value T) { l.insert(element, value, l.last, nil) }

// InsertBefore adds value before the value of next, which must be in the list. element must be in no
// list.
func (l *List[T]) InsertBefore(next, element *Element[T], value T) {
	l.insert(element, value, next.prev, next)
}

// insert adds value between two neighbors, either of which may be nil.
func (l *List[T]) insert(element *Element[T], value T, prev, next *Element[T]) {
	*element = Element[T]{value: value, list: l, prev: prev, next: next}
	if prev == nil {
		l.first = element
	} else {
		prev.next = element
	}
	if next == nil {
		l.last = element
	} else {
		next.prev = element
	}
	l.length++
}

// Remove removes the value from its list. It does nothing if the element is in no list.
func (e *Element[T]) Remove() {
	l := e.list
	if l == nil {
		return
	}
	if e.prev == nil {
		l.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	l.length--
	*e = Element[T]{}
}

// InList reports whether the element is in a list.
func (e *Element[T]) InList() bool { return e.list != nil }

// Next returns the value after that of e. It returns the zero value of T if e is the last one.
func (e *Element[T]) Next() T { return e.next.valueOrZero() }

// valueOrZero returns the value of e, or the zero value of T if e is nil.
func (e *Element[T]) valueOrZero() (value T) {
	if e != nil {
		value = e.value
	}
	return value
}
