package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/slack-go/slack"

	"github.com/askback-mcp/askback/desk/chat"
)

// interaction is what Slack sends when somebody presses a button or sends a form: the members that count.
type interaction struct {
	Type string `json:"type"`
	Team struct {
		ID string `json:"id"`
	} `json:"team"`
	User struct {
		ID   string `json:"id"`
		Team string `json:"team_id"`
	} `json:"user"`
	Trigger     string `json:"trigger_id"`
	ResponseURL string `json:"response_url"`
	Container   struct {
		Channel string `json:"channel_id"`
		Message string `json:"message_ts"`
	} `json:"container"`
	Actions []struct {
		ID    string `json:"action_id"`
		Value string `json:"value"`
	} `json:"actions"`
	View struct {
		Callback string `json:"callback_id"`
		Metadata string `json:"private_metadata"`
		State    struct {
			Values map[string]map[string]entry `json:"values"`
		} `json:"state"`
	} `json:"view"`
}

// Receive implements [chat.Service]. It verifies the signature of the app, and refuses a request whose time differs by
// more than five minutes.
func (s *Slack) Receive(r *http.Request) (*chat.Click, error) {
	// Before the body is read: without a signature and a time nobody has sent it.
	verifier, err := slack.NewSecretsVerifier(r.Header, s.secret)
	if err != nil {
		return nil, errors.New("slack: the request has no signature of now: compare the clock with Slack's")
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, fmt.Errorf("slack: reading a request: %w", err)
	}
	if _, err = verifier.Write(body); err == nil {
		err = verifier.Ensure()
	}
	if err != nil {
		return nil, errors.New("slack: the signature is not the app's: compare the signing secret")
	}
	form, err := url.ParseQuery(string(body))
	if err != nil || !form.Has("payload") {
		return nil, nil //nolint:nilnil,nilerr // a check by Slack that the address is there
	}
	var in interaction
	if err := json.Unmarshal([]byte(form.Get("payload")), &in); err != nil {
		return nil, errors.New("slack: the payload is not one of an interaction")
	}
	click := s.clickOf(&in)
	if click != nil {
		// In any spelling it is the same signature.
		click.ID = strings.ToLower(r.Header.Get("X-Slack-Signature"))
		// The workspace of a guest from another one is that one.
		click.Account = chat.Account{Workspace: in.User.Team, User: in.User.ID}
		if click.Account.Workspace == "" {
			click.Account.Workspace = in.Team.ID
		}
	}
	return click, nil
}

// clickOf returns what was pressed, or nil for what is not ours and for a link.
func (s *Slack) clickOf(in *interaction) *chat.Click {
	click := new(chat.Click)
	var ref reference
	switch {
	case in.Type == "block_actions" && len(in.Actions) == 1:
		switch in.Actions[0].ID {
		case pressAccept:
			ref.Action = "accept"
		case pressDecline:
			ref.Action = "decline"
		default:
			return nil
		}
		action := ref.Action
		if json.Unmarshal([]byte(in.Actions[0].Value), &ref) != nil {
			return nil
		}
		ref.Action = action
		if in.Container.Channel != "" && in.Container.Message != "" {
			ref.Ref = in.Container.Channel + "/" + in.Container.Message
		}
		click.Ask = ref.Ask
		click.Reply = func(ctx context.Context, w http.ResponseWriter, r *chat.Reply) error {
			return s.replyToButton(ctx, w, in, ref, r)
		}
	case in.Type == "view_submission" && in.View.Callback == formAnswer:
		if json.Unmarshal([]byte(in.View.Metadata), &ref) != nil {
			return nil
		}
		if ref.Action == "accept" {
			click.Answer.Content = contentOf(ref.Fields, in.View.State.Values)
		}
		if why := in.View.State.Values[reasonBlock][valueAction].Value; why != nil {
			click.Answer.Reason = *why
		}
		click.Reply = replyToForm
	default:
		return nil
	}
	click.Name, click.Key, click.Ref, click.Answer.Action = ref.Name, ref.Key, ref.Ref, ref.Action
	return click
}

// replyToButton opens a form within the time that Slack gives for it, or tells the person why nothing was answered.
func (s *Slack) replyToButton(
	ctx context.Context, w http.ResponseWriter, in *interaction, ref reference, r *chat.Reply,
) error {
	refused := r.Refused
	if r.Ask != nil {
		ref.Ask = false
		view, ok := dialog(r.Ask, ref)
		if ok {
			if _, err := s.api.OpenViewContext(ctx, in.Trigger, view); err != nil {
				w.WriteHeader(http.StatusServiceUnavailable) // Slack shows that it has failed
				return s.failure(ctx, "opening a form", err)
			}
		} else {
			refused = "Nothing was answered: Slack cannot show this form. Open the page of the question."
		}
	}
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
	if refused == "" {
		return nil
	}
	_ = http.NewResponseController(w).Flush() // Slack waits for 3 seconds, and what follows may take longer
	return s.tell(ctx, in.ResponseURL, refused)
}

// tell shows a text to the person who has pressed a button, and to nobody else.
func (s *Slack) tell(ctx context.Context, address, text string) error {
	if address == "" {
		return errors.New("slack: telling a person: the request has no response_url")
	}
	err := slack.PostWebhookCustomHTTPContext(ctx, address, &s.http.Client, &slack.WebhookMessage{
		ResponseType: slack.ResponseTypeEphemeral, Text: escape(cut(text, mostSection)),
		Blocks: &slack.Blocks{BlockSet: []slack.Block{section(text)}},
	})
	if err != nil {
		return s.failure(ctx, "telling a person", err)
	}
	return nil
}

var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace

// replyToForm closes the form, or says in it why nothing was answered.
func replyToForm(_ context.Context, w http.ResponseWriter, r *chat.Reply) error {
	var res *slack.ViewSubmissionResponse
	switch {
	case r.Invalid:
		res = slack.NewErrorsViewSubmissionResponse(map[string]string{reasonBlock: cut(r.Refused, mostErrorWords)})
	case r.Refused != "":
		res = slack.NewUpdateViewSubmissionResponse(notice(r.Refused))
	default:
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(http.StatusOK)
		return nil
	}
	body, err := json.Marshal(res)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, err = w.Write(body)
	return err
}
