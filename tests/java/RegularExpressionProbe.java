import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.stream.Collectors;

/** Each line in is a pattern and names, all in hex; each line out is "invalid", or true or false for each name. */
public class RegularExpressionProbe {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) System.out.println(answer(line.split(" ", -1)));
    }

    static String answer(String[] words) {
        try {
            Pattern pattern = Pattern.compile(text(words[0]));
            return Arrays.stream(words).skip(1).map(name -> String.valueOf(pattern.matcher(text(name)).matches()))
                .collect(Collectors.joining(" "));
        } catch (PatternSyntaxException refused) {
            return "invalid";
        }
    }

    static String text(String hex) {
        return new String(HexFormat.of().parseHex(hex), StandardCharsets.UTF_8);
    }
}
