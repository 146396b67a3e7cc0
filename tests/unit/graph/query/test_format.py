"""The formatter of the query language."""

from textwrap import dedent

from hypothesis import given

from penstock.graph.query.format import format_queries
from penstock.graph.query.parser import parse_queries
from penstock.graph.syntax.tokens import tokenize
from tests.unit.graph.samples import query_texts


def formatted(text: str) -> str:
    found = format_queries(dedent(text))
    assert isinstance(found, str)
    return found


def test_a_read_is_formatted() -> None:
    text = """
        query due($owner:String,$cut:Date)@description("Tasks.")@mcp(expose:false){match{$u:User{handle:$owner,}
        $u owns $t not{$t blocks $_}($t.due<$cut or $t.due is null)and $u.active count{$u (knows|likes) $_}>2}
        return{$t.slug,$t.due as due_on} order{due_on asc,$t.slug desc}limit 5}
    """
    assert formatted(text) == dedent("""\
        query due($owner: String, $cut: Date)
          @description("Tasks.")
          @mcp(expose: false)
        {
          match {
            $u: User { handle: $owner }
            $u owns $t
            not { $t blocks $_ }
            ($t.due < $cut or $t.due is null) and $u.active
            count { $u (knows|likes) $_ } > 2
          }
          return {
            $t.slug
            $t.due as due_on
          }
          order { due_on, $t.slug desc }
          limit 5
        }
    """)


def test_a_mutation_is_formatted() -> None:
    text = """
        query close($slug: String) { update Task set { state: "done" closed_at: now() } where slug=$slug and @id!="x"
        insert ClosedBy{from:$slug,to:"someone with a name that is too long to stand on one line with the rest of it"} }
    """
    assert formatted(text) == dedent("""\
        query close($slug: String) {
          update Task set { state: "done", closed_at: now() } where slug = $slug and @id != "x"
          insert ClosedBy {
            from: $slug,
            to: "someone with a name that is too long to stand on one line with the rest of it",
          }
        }
    """)


def test_comments_stay_where_they_are() -> None:
    text = """
        // before
        query q() { // head
          match { $a: User // who
            // last
          } // matched
          return { $a /* whole */ }
          // done
        }
        // after
    """
    assert formatted(text) == dedent("""\
        // before
        query q() {  // head
          match {
            $a: User  // who
            // last
          }  // matched
          return {
            $a  /* whole */
          }
          // done
        }
        // after
    """)


def test_a_block_with_more_than_one_clause_has_lines_of_its_own() -> None:
    text = """
        query q() { match { $u: User not { $u owns $t exists { $t blocks $_ } } count { $u knows $_ // note
        } > 2 } return { $u } }
    """
    assert formatted(text) == dedent("""\
        query q() {
          match {
            $u: User
            not {
              $u owns $t
              exists { $t blocks $_ }
            }
            count {
              $u knows $_  // note
            } > 2
          }
          return {
            $u
          }
        }
    """)


def test_edges_with_reserved_names_keep_their_quotes() -> None:
    assert '$a "in" $b' in formatted('query q() { match { $a: Task $a "in" $b } return { $b } }')
    assert "$a <knows>{1,2} $b" in formatted('query q() { match { $a: Task $a <"knows">{1,2} $b } return { $b } }')


@given(query_texts())
def test_formatting_changes_no_meaning_loses_no_comment_and_is_done_after_once(text: str) -> None:
    once = format_queries(text)
    assert isinstance(once, str), once
    assert parse_queries(once).queries == parse_queries(text).queries
    assert format_queries(once) == once
    before, after = (sum(each.text.count("note") for each in tokenize(each).comments) for each in (text, once))
    assert before == after
