"""Requests written before the offline model's rules, by somebody who never saw them: nobody tunes on these.

Whoever works on the rules does not read this file. A request that turns out to be unfair is replaced by another
author, from the tools' definitions alone.
"""

from __future__ import annotations

from tests.agent.offline.case import Case

MATH = (
    Case("What do you get when you multiply 12.5 by 8?", "math:multiply", {"a": 12.5, "b": 8}, ({"a": 8, "b": 12.5},)),
    Case("Could you please subtract 19.5 from 250?", "math:subtract", {"a": 250, "b": 19.5}),
    Case("Which prime numbers are there up to 500?", "math:primes", {"n": 500}),
    Case(
        "I measured 4, 8, 15, 16, 23 and 42. What are the mean and the standard deviation?",
        "math:statistics",
        {"numbers": [4, 8, 15, 16, 23, 42]},
    ),
    Case("Raise 2.5 to the power of -3", "math:power", {"base": 2.5, "exponent": -3}),
    Case("First work out the factorial of 9, and then divide it by 81.", "math:factorial", {"n": 9}),
    Case("divide a=355 b=113", "math:divide", {"a": 355, "b": 113}),
)

WEATHER = (
    Case("Do I need an umbrella? What is today's weather in Hamburg?", "weather:get_weather", {"location": "Hamburg"}),
    Case("Give me a forecast for Oslo, the coming 4 days", "weather:forecast", {"location": "Oslo", "days": 4}),
    Case(
        "What was the weather like in Madrid from 2025-03-01 to 2025-03-14? Imperial units, please.",
        "weather:history",
        {"location": "Madrid", "start": "2025-03-01", "end": "2025-03-14", "units": "imperial"},
    ),
    Case(
        "Compare the weather in Rome, Athens and Lisbon today.",
        "weather:compare",
        {"locations": ["Rome", "Athens", "Lisbon"]},
    ),
    Case(
        "I'd like a bar chart of the temperatures in Cairo over the coming ten days",
        "weather:plot_forecast",
        {"location": "Cairo", "days": 10},
    ),
    Case(
        "How is the weather in San Francisco today, in °F?",
        "weather:get_weather",
        {"location": "San Francisco", "units": "imperial"},
    ),
    Case(
        "Fetch the forecast of the next 3 days for Vienna, then give me statistics of the maximum temperatures.",
        "weather:forecast",
        {"location": "Vienna", "days": 3},
    ),
)

SHOWCASE = (
    Case(
        'Send a log message at level warning that says "disk almost full"',
        "showcase:log",
        {"level": "warning", "message": "disk almost full"},
    ),
    Case("Can I have an SVG image, width 300 and height 200?", "showcase:image_svg", {"width": 300, "height": 200}),
    Case("play me a tone of 880 hertz for 2 seconds", "showcase:audio_wav", {"frequency": 880, "seconds": 2}),
    Case("Show me a table with 25 rows as CSV text.", "showcase:table_csv", {"rows": 25}),
    Case(
        'Use the mapping tool with {"scores": {"ann": 3.5, "bob": 4}}',
        "showcase:mapping",
        {"scores": {"ann": 3.5, "bob": 4}},
    ),
    Case(
        "Call progress with steps=8, delay=0.01 and messages=false",
        "showcase:progress",
        {"steps": 8, "delay": 0.01, "messages": False},
    ),
    Case("Add a prompt named greeting to the showcase server, would you?", "showcase:add_prompt", {"name": "greeting"}),
    Case(
        "try the enums tool: priority is high, colour is blue, toppings are ham and corn",
        "showcase:enums",
        {"priority": "high", "colour": "blue", "toppings": ["ham", "corn"]},
        ({"priority": "high", "colour": "blue", "toppings": ["corn", "ham"]},),
    ),
)

PAGING = (
    Case("Call tool_017.", "paging:tool_017", {}),
    Case("Please run the tool called tool_004 of the paging server", "paging:tool_004", {}),
    Case("paging:tool_022", "paging:tool_022", {}),
    Case("What does `tool_000` give back? Try it out for me.", "paging:tool_000", {}),
    Case("Run tool_012 and then add 30 to whatever it returned.", "paging:tool_012", {}),
)

EVERYTHING = (
    Case(
        'Please echo back "Grüße aus Köln, 3 mal täglich"',
        "everything:echo",
        {"message": "Grüße aus Köln, 3 mal täglich"},
    ),
    Case("get-sum with a = 19 and b = -23", "everything:get-sum", {"a": 19, "b": -23}),
    Case(
        'Simulate a deep research query on the topic "coral reef bleaching".',
        "everything:simulate-research-query",
        {"topic": "coral reef bleaching"},
    ),
    Case("I want 7 resource links, up to ten are possible", "everything:get-resource-links", {"count": 7}),
    Case("Show me all environment variables, I am debugging the server's configuration", "everything:get-env", {}),
    Case(
        "Start a long running operation with a duration of 6 seconds in 3 steps.",
        "everything:trigger-long-running-operation",
        {"duration": 6, "steps": 3},
    ),
    Case(
        "Get an annotated message of type error, and include the example image",
        "everything:get-annotated-message",
        {"messageType": "error", "includeImage": True},
    ),
)

TIME = (
    Case(
        "What's the time in Singapore right now?",
        "time:get_current_time",
        {"timezone": "Asia/Singapore"},
        ({"timezone": "Singapore"},),
    ),
    Case(
        "Convert 14:30 from Europe/Berlin to America/Chicago",
        "time:convert_time",
        {"source_timezone": "Europe/Berlin", "time": "14:30", "target_timezone": "America/Chicago"},
    ),
    Case(
        "If it is 09:05 in Toronto, what time is it in Dubai?",
        "time:convert_time",
        {"source_timezone": "America/Toronto", "time": "09:05", "target_timezone": "Asia/Dubai"},
    ),
    Case("current time, timezone=Australia/Sydney", "time:get_current_time", {"timezone": "Australia/Sydney"}),
    Case(
        "Our call is at 6:45 pm Los Angeles time; please convert that to Paris time for me.",
        "time:convert_time",
        {"source_timezone": "America/Los_Angeles", "time": "18:45", "target_timezone": "Europe/Paris"},
    ),
    Case(
        "Could you tell me the current time in UTC?",
        "time:get_current_time",
        {"timezone": "UTC"},
        ({"timezone": "Etc/UTC"},),
    ),
)

GIT = (
    Case("git status of /home/ana/thesis please", "git:git_status", {"repo_path": "/home/ana/thesis"}),
    Case(
        "Show me the last 5 commits in the log of /srv/repos/website",
        "git:git_log",
        {"repo_path": "/srv/repos/website", "max_count": 5},
    ),
    Case(
        "Create a new branch named feature/login from the base branch develop in /home/dev/app",
        "git:git_create_branch",
        {"repo_path": "/home/dev/app", "branch_name": "feature/login", "base_branch": "develop"},
    ),
    Case(
        "In the repository /tmp/demo, commit with the message 'Fix typo in README'",
        "git:git_commit",
        {"repo_path": "/tmp/demo", "message": "Fix typo in README"},
    ),
    Case(
        "Add src/main.py and tests/test_main.py to the staging area of the repo at /home/dev/parser",
        "git:git_add",
        {"repo_path": "/home/dev/parser", "files": ["src/main.py", "tests/test_main.py"]},
        ({"repo_path": "/home/dev/parser", "files": ["tests/test_main.py", "src/main.py"]},),
    ),
    Case(
        "Which remote branches are there in /opt/tools?",
        "git:git_branch",
        {"repo_path": "/opt/tools", "branch_type": "remote"},
    ),
    Case(
        "what has changed in /data/model-repo that is not staged yet?",
        "git:git_diff_unstaged",
        {"repo_path": "/data/model-repo"},
    ),
    Case(
        "Unstage all staged changes in /home/ana/thesis, then show its status.",
        "git:git_reset",
        {"repo_path": "/home/ana/thesis"},
    ),
)

HELD_OUT = (*MATH, *WEATHER, *SHOWCASE, *PAGING, *EVERYTHING, *TIME, *GIT)
