// Package foreign stands between what strangers send and what is done with it: the texts, the JSON Schemas, the regular
// expressions in them and the URI templates of servers that others wrote.
//
//	line := foreign.Line(tool.Description, 200)                  // safe to show
//	schema, err := foreign.Compile(ctx, tool.InputSchema)        // can values be checked against it?
//	err = schema.Fits(ctx, arguments)                            // does this one fit?
//	template, err := foreign.ParseTemplate(resource.URITemplate) // once, where it is offered
//
// A schema may have references in a circle, parts that double with each level, or patterns that fill the memory. So
// nothing is compiled before its size is known, a value is checked only after the steps that this takes were counted,
// and nothing of a schema is kept. What is beyond a bound ends with a [*BoundError]. Nothing is ever fetched.
package foreign

import "fmt"

// BoundError says why something of a stranger's is not used: it is beyond a bound of this package, or needs what this
// package does not do. The reason is a sentence without its end, such as "the schema's references form a circle".
type BoundError struct{ Reason string }

func (e *BoundError) Error() string { return e.Reason }

func beyond(format string, args ...any) error { return &BoundError{fmt.Sprintf(format, args...)} }
