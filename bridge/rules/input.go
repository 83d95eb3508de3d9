package rules

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"

	"cel.dev/cel-go/cel"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// The bounds of what is evaluated.
const (
	mostArguments  = 4 << 20 // bytes
	depthArguments = 64
	mostCondition  = 8 << 10   // bytes
	mostCost       = 1_000_000 // in units of CEL
)

// newEnv declares what conditions can name. Each annotation is a variable, so that a misspelt one is found when the
// file is read.
func newEnv() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("server", cel.StringType),
		cel.Variable("tool", cel.StringType),
		cel.Variable("definition", cel.StringType),
		cel.Variable("caller", cel.StringType),
		cel.Variable("arguments", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("annotations.title", cel.StringType),
		cel.Variable("annotations.readOnlyHint", cel.BoolType),
		cel.Variable("annotations.destructiveHint", cel.BoolType),
		cel.Variable("annotations.idempotentHint", cel.BoolType),
		cel.Variable("annotations.openWorldHint", cel.BoolType),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(mostCondition),
		cel.ParserRecursionLimit(100),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(),
			cel.ValidateComprehensionNestingLimit(2)),
	)
}

// newInput makes the values that conditions name.
func newInput(call *askback.ToolCall) (map[string]any, error) {
	arguments := any(map[string]any{})
	if len(call.Arguments) > 0 {
		var err error
		if arguments, err = decode(call.Arguments); err != nil {
			return nil, err
		}
	}
	in := map[string]any{
		"server": call.Server, "tool": call.Tool, "caller": call.Caller, "definition": "", "arguments": arguments,
		"annotations.title": "", "annotations.readOnlyHint": false, "annotations.destructiveHint": true,
		"annotations.idempotentHint": false, "annotations.openWorldHint": true,
	}
	if call.Definition != "" {
		digest := sha256.Sum256([]byte(call.Definition))
		in["definition"] = "sha256:" + hex.EncodeToString(digest[:])
	}
	if a := call.Annotations; a != nil {
		in["annotations.title"] = a.Title
		in["annotations.readOnlyHint"], in["annotations.idempotentHint"] = a.ReadOnlyHint, a.IdempotentHint
		if a.DestructiveHint != nil {
			in["annotations.destructiveHint"] = *a.DestructiveHint
		}
		if a.OpenWorldHint != nil {
			in["annotations.openWorldHint"] = *a.OpenWorldHint
		}
	}
	return in, nil
}

// decode decodes arguments. Its errors tell no values.
func decode(data []byte) (any, error) {
	if len(data) > mostArguments {
		return nil, fmt.Errorf("they have more than %d bytes", mostArguments)
	}
	if strictjson.Check(data, depthArguments) != nil {
		return nil, fmt.Errorf("they are not JSON, have a member twice, or are deeper than %d", depthArguments)
	}
	if strictjson.TypeOf(data) != strictjson.TypeObject {
		return nil, errors.New("they are not a JSON object")
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, errors.New("they are not JSON")
	}
	return numbers(value)
}

// numbers replaces the numbers in a value by those of CEL: whole ones stay exact as far as 64 bits go.
func numbers(value any) (_ any, err error) {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			if v[name], err = numbers(inner); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, inner := range v {
			if v[i], err = numbers(inner); err != nil {
				return nil, err
			}
		}
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return n, nil
		}
		if n, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			return n, nil
		}
		n, err := v.Float64()
		if err != nil || math.IsInf(n, 0) {
			return nil, errors.New("a number in them is out of range")
		}
		return n, nil
	}
	return value, nil
}

// errorKinds are the errors of an evaluation. CEL's own text of them may hold values of the call.
var errorKinds = regexp.MustCompile(
	`^(no such (?:key|attribute|overload)|operation cancelled|operation interrupted|actual cost limit exceeded|` +
		`division by zero|modulus by zero|index out of bounds|(?:integer|unsigned integer|return|int|uint) overflow)`)

// plain is an error of an evaluation without values of the call.
func plain(err error) error {
	kind := errorKinds.FindString(err.Error())
	switch kind {
	case "":
		kind = "its condition cannot be evaluated"
	case "no such key", "no such attribute":
		kind = "the call lacks an argument that its condition needs; try has(arguments.NAME) before"
	case "no such overload":
		kind = "an argument has a type that its condition does not expect"
	case "actual cost limit exceeded", "operation cancelled", "operation interrupted":
		kind = "its condition takes too long"
	}
	return errors.New(kind)
}
